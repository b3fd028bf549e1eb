"""Causes: the stable CamelCase words in the findings of `vcjob why`.

A pending job has the cause that `vcjob.wellknown.reasons` names; the words here are for jobs that failed or hang.
"""

from __future__ import annotations

from vcjob.wellknown.definition import Definitions

CAUSES = Definitions()
_define = CAUSES.add

_FAILED, _HUNG = "failed job", "running job"

EXCEPTION = _define("Exception", _FAILED, "The training program raised a Python exception.")
MODULE_NOT_FOUND = _define("ModuleNotFound", _FAILED, "A Python module is not installed where the rank runs.")
FILE_NOT_FOUND = _define("FileNotFound", _FAILED, "The program, or a file that it needs, does not exist.")
DISK_FULL = _define("DiskFull", _FAILED, "A disk or volume has no space left.")
SHARED_MEMORY_FULL = _define(
    "SharedMemoryFull", _FAILED, "The shared memory of a container (/dev/shm) is full or too small."
)
READ_ONLY_FILE_SYSTEM = _define(
    "ReadOnlyFileSystem", _FAILED, "The program writes to a read-only file system."
)
PERMISSION_DENIED = _define("PermissionDenied", _FAILED, "The program may not read, write or execute a file.")
OUT_OF_MEMORY = _define(
    "OutOfMemory",
    _FAILED,
    "A container used more memory than its limit, and the kernel killed it or one of its processes.",
)
HOST_OUT_OF_MEMORY = _define(
    "HostOutOfMemory",
    _FAILED,
    "The machine, or the cgroup in which vcjob runs, had no memory left: the kernel killed a rank or one of its "
    "processes, or an allocation failed.",
)
PROCESS_LIMIT = _define(
    "ProcessLimit", _FAILED, "A rank could not start another process or thread: a limit is reached."
)
KILLED = _define("Killed", _FAILED, "A rank was ended by a signal that vcjob did not send.")
SEGMENTATION_FAULT = _define("SegmentationFault", _FAILED, "A rank crashed in native code.")
ABORTED = _define("Aborted", _FAILED, "Native code aborted the process, for example after a failed check.")
CUDA_OUT_OF_MEMORY = _define("CudaOutOfMemory", _FAILED, "A GPU has no memory left.")
CUDA_UNAVAILABLE = _define("CudaUnavailable", _FAILED, "The program needs a GPU, and torch finds none.")
TOO_FEW_GPUS = _define(
    "TooFewGpus", _FAILED, "The program uses a GPU with a higher index than the rank has GPUs."
)
GPU_SHARED = _define("GpuShared", _FAILED, "Two ranks of one nccl group use the same GPU.")
COLLECTIVE_MISMATCH = _define(
    "CollectiveMismatch",
    f"{_FAILED}, {_HUNG}",
    "Ranks called different collectives, or the same one with different shapes.",
)
COLLECTIVE_TIMEOUT = _define(
    "CollectiveTimeout", _FAILED, "A rank waited for the others in a collective until torch's timeout."
)
CONNECTION_LOST = _define(
    "ConnectionLost",
    _FAILED,
    "Ranks lost their connections to each other, and none of them shows an error of its own.",
)
COMMAND_NOT_FOUND = _define("CommandNotFound", _FAILED, "The container's command does not exist.")
COMMAND_NOT_EXECUTABLE = _define(
    "CommandNotExecutable", _FAILED, "The container's command is not executable."
)
COMMAND_IS_ONE_WORD = _define(
    "CommandIsOneWord", _FAILED, "A whole command line was written as the name of one program."
)
START_ERROR = _define(
    "StartError", _FAILED, "A container could not be started, for example because of its volumes."
)
MASTER_NOT_LISTENING = _define(
    "MasterNotListening",
    f"{_FAILED}, {_HUNG}",
    "Nothing listens on the master's port, so the ranks cannot meet.",
)
MASTER_UNREACHABLE = _define(
    "MasterUnreachable",
    f"{_FAILED}, {_HUNG}",
    "The master's address does not answer: a network policy or a firewall.",
)
MASTER_NAME_NOT_RESOLVED = _define(
    "MasterNameNotResolved", _FAILED, "The host name in MASTER_ADDR does not resolve."
)
HOST_NOT_RESOLVED = _define(
    "HostNotResolved", _FAILED, "The name of a host that is not the master does not resolve."
)
NO_PROBE_TOOL = _define(
    "NoProbeTool",
    _FAILED,
    "The image of the wait-for-master container has no program that can probe a port.",
)
PORT_IN_USE = _define("PortInUse", _FAILED, "The master's port is used by another process.")
WORLD_SIZE_MISMATCH = _define(
    "WorldSizeMismatch",
    f"{_FAILED}, {_HUNG}",
    "The program expects another number of ranks than the Job has.",
)
RANK_EXITED_EARLY = _define(
    "RankExitedEarly",
    f"{_FAILED}, {_HUNG}",
    "A rank ended with exit code 0 while the others still needed it.",
)
RANK_NOT_CONNECTED = _define(
    "RankNotConnected", _HUNG, "A rank runs but never connects to the master, and the others wait for it."
)
RANK_BEHIND = _define(
    "RankBehind", _HUNG, "A rank did not reach the collective, or the send or receive, in which others wait."
)
STRAGGLER = _define("Straggler", _HUNG, "A rank is much slower per step than the others.")
DEADLINE_EXCEEDED = _define(
    "ActiveDeadlineExceeded", _FAILED, "The job ran longer than its activeDeadlineSeconds."
)
EVICTED = _define(
    "Evicted", _FAILED, "The cluster removed a pod: node pressure, a drain, preemption or a lost node."
)
NODE_LOST = _define("NodeLost", _HUNG, "The node of a rank does not respond: the rank may run on or be dead.")
PROBE_FAILED = _define(
    "ProbeFailed", _FAILED, "A container was ended because its liveness or startup probe failed."
)
NON_ZERO_EXIT = _define(
    "NonZeroExit",
    _FAILED,
    "A rank ended with an exit code other than 0 and printed nothing that explains it.",
)
STILL_RUNNING = _define(
    "RanksStopped", "completed job", "Ranks were still running when the job completed, and were stopped."
)
