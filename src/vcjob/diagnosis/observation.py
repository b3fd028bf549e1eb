"""`Observation`: everything that the rules of a diagnosis may look at, as plain data.

A backend collects it (local: files, /proc, sockets, stacks; cluster: pods, events, logs). Rules never do I/O,
so a recorded observation is a test. A field that a backend cannot know is None or empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from vcjob.diagnosis.finding import Finding


class End(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a container ended. `stopped`: vcjob or the kubelet ended it, so its end does not count as a failure.

    Part of a `PodObservation`. A time that nobody recorded is None.
    """

    exit_code: int
    reason: str = ""
    signal: int | None = None
    message: str = ""
    finished_at: float | None = None
    stopped: bool = False
    #: Since when it was being ended; an error that it printed before that is its own.
    stopped_at: float | None = None


class Frame(msgspec.Struct, frozen=True):
    """One frame of a Python stack.

    From py-spy or from the agent of a rank; the file is the path in the rank's own file system.
    """

    #: The name of the function.
    function: str
    #: The path of the file, as the rank sees it.
    file: str
    #: The line in the file.
    line: int


class Collective(msgspec.Struct, frozen=True, omit_defaults=True):
    """One collective that a rank issued, from PyTorch's flight recorder.

    The rules for hangs compare these between the ranks of a group; `sequence` counts them.
    """

    sequence: int
    name: str
    #: The process group's name in torch; the default group is "0".
    group: str = "0"
    #: Elements and type of the input: "4000 Float"; empty where ranks may differ in them.
    sizes: str = ""
    issued_at: float = 0.0
    done: bool = True


class Transfer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One send or receive between two ranks, from PyTorch's flight recorder, which records them for nccl.

    For other backends of torch a transfer shows only in the stack.
    """

    name: str
    #: The rank of the job to which it sends or from which it receives; None: any rank, or it is not known.
    peer: int | None = None
    group: str = "0"
    issued_at: float = 0.0
    done: bool = True


class RankState(msgspec.Struct, omit_defaults=True):
    """What a rank's process does, as its agent and /proc show it. Times are None where it does not hold.

    The backends collect it for running jobs, and the rules for hangs read it. A rank that has not reported has none.
    """

    rank: int
    #: The newest ones, oldest first, and the ranks in each group.
    collectives: tuple[Collective, ...] = ()
    groups: dict[str, tuple[int, ...]] = {}
    #: The main thread, innermost frame first.
    stack: tuple[Frame, ...] = ()
    #: Since when it has used no CPU, moved no data, printed nothing and been in the same functions.
    idle_since: float | None = None
    #: Since when it has run Python code in the same functions without a pause and without any other effect.
    looping_since: float | None = None
    #: Somebody has stopped it (SIGSTOP, a debugger).
    paused: bool = False
    #: Its process has ended.
    ended: bool = False
    #: Sends and receives, oldest first.
    transfers: tuple[Transfer, ...] = ()
    #: Since when the main thread waits in one call of torch's `send` or `recv`, and for which rank (None: for any).
    call_since: float | None = None
    peer: int | None = None
    #: Since when the functions on the stack are the same.
    stack_since: float | None = None


class PodObservation(msgspec.Struct, omit_defaults=True):
    """The newest attempt of one pod: its state, how its containers ended and what it printed last.

    Part of an `Observation`. What a backend cannot know is empty or None.
    """

    pod: str
    task: str
    index: int
    rank: int | None = None
    attempt: int = 0
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    node: str = ""
    #: Its node does not respond.
    node_lost: bool = False
    created_at: float | None = None
    #: The container whose end counts: the one that failed first, else the main one.
    container: str = ""
    end: End | None = None
    #: The last lines of each stream, oldest first, without control characters.
    stderr: tuple[str, ...] = ()
    stdout: tuple[str, ...] = ()
    #: The lines of both in the order in which they arrived, where each has lines and the order is known.
    output: tuple[str, ...] = ()
    #: When the traceback (or the last line of stderr) was written.
    error_at: float | None = None
    #: For a rank that waited for the master: NetworkPolicies that deny all connections to it.
    blocked_by: tuple[str, ...] = ()
    memory_limit: str = ""
    command: tuple[str, ...] = ()
    #: Whether the rank has a connection to the master's port; None: not known.
    connected: bool | None = None
    #: Since when its init container has waited for the master; None: it does not.
    waits_for_master_since: float | None = None

    @property
    def name(self) -> str:
        """As findings name it: by its rank where it has one."""
        return f"rank {self.rank}" if self.rank is not None else f"{self.task}-{self.index}"

    @property
    def long_name(self) -> str:
        """With its task and index: "rank 1 (worker-0)"."""
        pod = f"{self.task}-{self.index}"
        return pod if self.rank is None else f"rank {self.rank} ({pod})"

    @property
    def running(self) -> bool:
        return self.phase == "Running" and self.end is None

    @property
    def failed(self) -> bool:
        """It ended badly, and not because vcjob or the kubelet ended it."""
        return self.end is not None and self.end.exit_code != 0 and not self.end.stopped


class EventObservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Kubernetes event, or one of the local backend, about the Job or one of its pods.

    Rules quote them as evidence.
    """

    reason: str
    message: str
    type: str = "Normal"
    object: str = ""
    at: float | None = None


class Observation(msgspec.Struct, omit_defaults=True):
    """A job at the time `now`: everything that the rules may use.

    A backend collects it, and `diagnose` passes it to every rule. It is plain data, so a rule can be tested without a
    job.
    """

    name: str
    backend: str
    phase: str
    reason: str = ""
    message: str = ""
    namespace: str = "default"
    now: float = 0.0
    #: How many pods of the Job are to have a rank, whether they exist or not; None: the Job has no ranks.
    expected_ranks: int | None = None
    master_port: int | None = None
    #: Whether anything listens on the master's port; None: not known.
    master_listens: bool | None = None
    #: Since when some rank has been connected to that port without a pause; None: none is, or it is not known.
    rendezvous_since: float | None = None
    #: (task, index) of the pod that the Job's status names: decides between failures at the same moment.
    recorded: tuple[str, int] | None = None
    #: (cause, message) that the backend found when it happened, when the logs of all ranks still existed.
    recorded_finding: tuple[str, str] | None = None
    pods: list[PodObservation] = []
    events: list[EventObservation] = []
    #: Of each rank whose process can be read, in the order of ranks.
    rank_states: list[RankState] = []
    #: Seconds without progress after which a job counts as hung.
    hang_after: float = 20.0
    #: What the supervisor found while the job ran: some findings need more than one observation.
    hang_findings: list[Finding] = []

    @property
    def reference(self) -> str:
        """The job as hints name it in commands: `NAME`, or `NAME --on cluster -n team`."""
        where = " --on cluster" if self.backend == "cluster" else ""
        named = where or self.namespace != "default"
        return f"{self.name}{where}{f' -n {self.namespace}' if named else ''}"

    def ranks(self) -> Iterator[PodObservation]:
        """Pods that have a rank, in the order of ranks."""
        return iter(sorted((pod for pod in self.pods if pod.rank is not None), key=lambda pod: pod.rank or 0))
