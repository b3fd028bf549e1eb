"""Environment variables: those that vcjob reads, and those that it sets in containers.

Modules take the names from here, and `scripts/generate_reference.py` makes the reference page of them. Nothing here
reads the environment.
"""

from __future__ import annotations

from vcjob.wellknown.definition import Definitions

VARIABLES = Definitions()
_define = VARIABLES.add

_READ, _SET, _LOCAL = "read by vcjob", "set in containers", "set in containers, local backend"

HOME = _define(
    "VCJOB_HOME",
    _READ,
    "The folder for jobs and their logs. Default: `vcjob` in the XDG state folder (`~/.local/state`).",
)
LOG_LIMIT = _define(
    "VCJOB_LOG_LIMIT",
    _READ,
    "How much disk space the logs of one local job may take, as a quantity (`1Gi`); 0 for no limit. "
    "Default: `10Gi`.",
)
DEBUG = _define(
    "VCJOB_DEBUG", _READ, "If it is not empty, an internal error of vcjob is shown with its traceback."
)
HANG_DETECTION = _define(
    "VCJOB_HANG_DETECTION",
    _READ,
    "`off`: ranks on the local backend run without the agent that reports their collectives, and hangs are not "
    "detected. Can also be set in a container.",
)
HANG_AFTER = _define(
    "VCJOB_HANG_AFTER",
    _READ,
    "After how many seconds without progress a job counts as hung; on a cluster, for Jobs with `--flight-recorder`. "
    "Default: 20.",
)

MASTER_ADDR = _define("MASTER_ADDR", _SET, "Plugin `pytorch`: the host name of rank 0; locally 127.0.0.1.")
MASTER_PORT = _define("MASTER_PORT", _SET, "Plugin `pytorch`: the port of rank 0.")
WORLD_SIZE = _define("WORLD_SIZE", _SET, "Plugin `pytorch`: the number of rank pods.")
RANK = _define("RANK", _SET, "Plugin `pytorch`: the rank of this pod.")
LOCAL_RANK = _define("LOCAL_RANK", _SET, "Plugin `pytorch`: 0, where a pod runs one rank.")
LOCAL_WORLD_SIZE = _define("LOCAL_WORLD_SIZE", _SET, "Plugin `pytorch`: 1, where a pod runs one rank.")
PET_NNODES = _define("PET_NNODES", _SET, "With `--nproc-per-node`: torchrun's `--nnodes`.")
PET_NODE_RANK = _define("PET_NODE_RANK", _SET, "With `--nproc-per-node`: torchrun's `--node-rank`.")
PET_NPROC_PER_NODE = _define(
    "PET_NPROC_PER_NODE", _SET, "With `--nproc-per-node`: torchrun's `--nproc-per-node`."
)
PET_MASTER_ADDR = _define("PET_MASTER_ADDR", _SET, "With `--nproc-per-node`: torchrun's `--master-addr`.")
PET_MASTER_PORT = _define("PET_MASTER_PORT", _SET, "With `--nproc-per-node`: torchrun's `--master-port`.")
VC_TASK_HOSTS = _define(
    "VC_<TASK>_HOSTS", _SET, "Plugin `svc`: the host names of a task's pods, separated by commas."
)
VC_TASK_NUM = _define("VC_<TASK>_NUM", _SET, "Plugin `svc`: the number of a task's host names.")
VC_TASK_INDEX = _define("VC_TASK_INDEX", _SET, "Plugin `env`: the index of this pod in its task.")
VK_TASK_INDEX = _define("VK_TASK_INDEX", _SET, "Plugin `env`: the same, under Volcano's older name.")
ATTEMPT = _define(
    "VCJOB_ATTEMPT", _SET, "Where the Job asks for it: how often this pod was replaced, counted from 0."
)
FUNCTION = _define(
    "VCJOB_FUNCTION",
    _SET,
    "SDK, `pytorch_job(function)`: the source of the training function and of what it uses.",
)
RANK_STATE = _define(
    "VCJOB_RANK_STATE",
    _SET,
    "On the local backend, and on a cluster with `--flight-recorder`: the folder in which the agent of a rank writes the "
    "state of its process.",
)
FR_BUFFER_SIZE = _define(
    "TORCH_FR_BUFFER_SIZE",
    _SET,
    "With `--flight-recorder`: how many collectives torch's flight recorder keeps. 100, unless you set it.",
)
RUN_UID = _define("VCJOB_RUN_UID", _LOCAL, "The uid of the job's run.")
POD_UID = _define("VCJOB_POD_UID", _LOCAL, "The uid of the pod.")
CONTAINER = _define("VCJOB_CONTAINER", _LOCAL, "The name of the container.")
MOUNT_PREFIX = _define(
    "VCJOB_MOUNT_<NAME>",
    _LOCAL,
    "Where a volume is, on machines that allow no mounts in a private namespace.",
)

WAIT_HOST = _define(
    "VCJOB_WAIT_HOST",
    "init container wait-for-master",
    "Plugin `pytorch`, with wait-for-master: the host name that is awaited.",
)
WAIT_PORT = _define(
    "VCJOB_WAIT_PORT",
    "init container wait-for-master",
    "Plugin `pytorch`, with wait-for-master: the port that is awaited.",
)
WAIT_TIMEOUT = _define(
    "VCJOB_WAIT_TIMEOUT",
    "init container wait-for-master",
    "Plugin `pytorch`, with wait-for-master: after how many seconds the wait fails.",
)
COMPLETE = _define(
    "_VCJOB_COMPLETE", "set by shells", "Set by the completion of the shell while it asks for names."
)
