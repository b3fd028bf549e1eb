"""Reasons: the stable CamelCase words in `status.state.reason`, in events and in pod states.

Scripts and alerts compare them, so a reason never changes its spelling. `REASONS` holds the meaning
of each for the reference page. Reasons that Kubernetes itself gives (OOMKilled, Evicted) are passed on
unchanged and are not listed.
"""

from __future__ import annotations

from vcjob.wellknown.definition import Definitions

REASONS = Definitions()

_JOB, _PENDING, _EVENT, _POD = "Job", "pending Job", "event", "pod"
_define = REASONS.add

# Phases of a Job

MIN_AVAILABLE_REACHED = _define(
    "MinAvailableReached", _JOB, "At least `minAvailable` pods are running or done: the Job is Running."
)
TOO_FEW_PODS = _define(
    "TooFewPods", _JOB, "Fewer than `minAvailable` pods are left: the Job is Pending again."
)
SUCCEEDED = _define("Succeeded", _JOB, "All pods ended and enough of them succeeded: the Job is Completed.")
MIN_SUCCESS_REACHED = _define("MinSuccessReached", _JOB, "`minSuccess` pods succeeded: the Job is Completed.")
TOO_FEW_SUCCEEDED = _define(
    "TooFewSucceeded", _JOB, "All pods ended and too few of them succeeded: the Job is Failed."
)
MAX_RETRY_REACHED = _define(
    "MaxRetryReached", _JOB, "A policy asked for a restart, and `maxRetry` allows no further run."
)
RANK_FAILED = _define(
    "RankFailed",
    _JOB,
    "A rank of the PyTorch plugin failed for good and no policy covers it. The other ranks cannot continue "
    "without it, so the Job fails at once.",
)
DEPENDENCY_FAILED = _define(
    "DependencyFailed", _JOB, "A task can never start, because a task that it depends on has failed."
)
DEADLINE_EXCEEDED = _define(
    "DeadlineExceeded", f"{_JOB}, {_POD}", "It was active longer than its `activeDeadlineSeconds`."
)
HUNG = _define(
    "Hung",
    _JOB,
    "The ranks wait for each other, and the annotation `vcjob.io/on-hang` (or `--on-hang`) is `restart` or `fail`. "
    "The message names the rank that is behind.",
)
SUSPENDED = _define("Suspended", _JOB, "`spec.suspend` is true.")
RESUMED = _define("Resumed", _JOB, "`spec.suspend` is no longer true.")
COMMAND_ISSUED = _define(
    "CommandIssued", _JOB, "A user asked for the action with a verb or a Command object."
)
INVALID_JOB = _define(
    "InvalidJob",
    f"{_JOB}, {_EVENT}",
    "The Job breaks a rule and is not run. The message lists every problem. "
    "A Job that Volcano started keeps its phase and its pods, and vcjob does nothing with it.",
)
INVALID_UPDATE = _define(
    "InvalidUpdate",
    f"{_JOB}, {_EVENT}",
    "A change of the spec is not allowed. The Job keeps its earlier spec; "
    "after a restart of the controller it is paused until the change is undone.",
)
SUPERVISOR_LOST = _define(
    "SupervisorLost",
    f"{_JOB}, {_EVENT}",
    "Local backend: the job's supervisor process was killed, so the job was ended.",
)

STATUS_DAMAGED = _define(
    "StatusDamaged",
    _JOB,
    "Local backend: the file with the Job's status cannot be read, so how the Job ended is unknown.",
)

# Pending Jobs

PODS_PENDING = _define(
    "PodsPending", _PENDING, "Pods exist or are being created, and not enough of them run yet."
)
WAITING_FOR_DEPENDS_ON = _define(
    "WaitingForDependsOn", _PENDING, "Tasks wait for the tasks in their `dependsOn`."
)
NO_REPLICAS = _define("NoReplicas", _PENDING, "The Job has 0 replicas, so there is nothing to run.")
NO_CONTROLLER = _define("NoController", _PENDING, "No controller has picked the Job up.")
UNKNOWN_EDITION = _define(
    "UnknownEdition",
    _PENDING,
    "Another version of vcjob started the Job, and this version cannot create pods in that version's form.",
)
QUOTA_EXCEEDED = _define("QuotaExceeded", _PENDING, "A ResourceQuota of the namespace rejects the pods.")
LIMIT_RANGE = _define("LimitRange", _PENDING, "A LimitRange of the namespace rejects the pods.")
POD_SECURITY = _define("PodSecurity", _PENDING, "Pod security admission rejects the pods.")
REJECTED_BY_WEBHOOK = _define(
    "RefusedByWebhook", _PENDING, "An admission webhook rejects an object of the Job."
)
WEBHOOK_FAILED = _define(
    "WebhookFailed", _PENDING, "The API server cannot call an admission webhook, so it rejects the object."
)
CRD_NOT_READY = _define(
    "CrdNotReady",
    _PENDING,
    "The API server does not know the Job definition yet, in the first seconds after an installation.",
)
NAMESPACE_TERMINATING = _define("NamespaceTerminating", _PENDING, "The namespace is being deleted.")
FORBIDDEN = _define(
    "Forbidden", _PENDING, "The API server does not allow the controller to create an object."
)
NOT_FOUND = _define("NotFound", _PENDING, "Something that an object of the Job needs does not exist.")
INVALID_OBJECT = _define("InvalidObject", _PENDING, "The API server rejects an object of the Job as invalid.")
NAME_CONFLICT = _define(
    "NameConflict", _PENDING, "An object of the same name exists and does not belong to this Job."
)
UNKNOWN_KIND = _define(
    "UnknownKind", _PENDING, "A plugin asks for an object of a kind that the cluster does not serve."
)
PREVIOUS_JOB_TERMINATING = _define(
    "PreviousJobTerminating", _PENDING, "Objects of a deleted Job of the same name still exist."
)
OBJECT_TERMINATING = _define(
    "ObjectTerminating", _PENDING, "An object of the Job is being deleted. It is created again afterwards."
)
POD_NOT_RECOGNISED = _define(
    "PodNotRecognised", _PENDING, "A created pod lacks its annotations: another webhook removes them."
)
WAITING_IN_QUEUE = _define("WaitingInQueue", _PENDING, "The PodGroup waits in its Volcano queue.")
UNSCHEDULABLE = _define("Unschedulable", _PENDING, "No node fits a pod. The message is the scheduler's.")
NO_SUCH_SCHEDULER = _define(
    "NoSuchScheduler", _PENDING, "No scheduler has handled a pod: its `schedulerName` is probably not served."
)
SCHEDULING_GATED = _define("SchedulingGated", _PENDING, "A pod has scheduling gates that are still set.")
IMAGE_PULL = _define("ImagePull", _PENDING, "An image cannot be pulled.")
CONTAINER_CONFIG = _define(
    "ContainerConfig", _PENDING, "A container cannot be created, for example because a ConfigMap is missing."
)
VOLUME = _define(
    "Volume", _PENDING, "A claim does not exist or is not bound, or a volume cannot be attached or mounted."
)
POD_SANDBOX = _define(
    "PodSandbox", _PENDING, "The node cannot create the pod's sandbox (network or runtime)."
)
STARTING = _define("Starting", _PENDING, "A pod has a node, and no container of it has started yet.")
INIT_STEP = _define("InitStep", _PENDING, "An init container runs, waits for the master or has failed.")
CRASH_LOOP = _define("CrashLoop", _PENDING, "A container keeps failing and waits before its next start.")
NODE_LOST = _define("NodeLost", f"{_PENDING}, {_EVENT}", "The node of a pod does not respond.")
INSUFFICIENT_GPUS = _define(
    "InsufficientGPUs", _PENDING, "Local backend: other jobs hold the GPUs that the pods need."
)
CANNOT_START_PROCESS = _define(
    "CannotStartProcess", _PENDING, "Local backend: the machine cannot start a process at present."
)

# Events

EXECUTE_ACTION = _define(
    "ExecuteAction", _EVENT, "A policy or a Command changes the phase (the word that Volcano uses)."
)
HANG_ENDED = _define(
    "HangEnded", _EVENT, "Local backend: ranks that waited for each other make progress again."
)
COMMAND_REJECTED = _define("CommandRefused", _EVENT, "A Command cannot be carried out in the Job's phase.")
STATUS_UNREADABLE = _define(
    "StatusUnreadable",
    _EVENT,
    "What vcjob records in the status cannot be read. It is rebuilt from the pods; the phase stays.",
)
SCHEDULER_REPLACED = _define(
    "SchedulerReplaced",
    _EVENT,
    "The Job asks for Volcano's scheduler, which does not run here; another scheduler places its pods.",
)
POD_WARNING = _define("PodWarning", _EVENT, "The API server accepted a pod and returned a warning.")
PORT_REPLACED = _define(
    "PortReplaced", _EVENT, "Local backend: the master port is in use, so the job uses another one."
)
CORES_SHARED = _define(
    "CoresShared",
    _EVENT,
    "Local backend: the ranks share the cores, and `OMP_NUM_THREADS` is set accordingly.",
)
UNSUPPORTED_LOCALLY = _define(
    "UnsupportedLocally", _EVENT, "Local backend: a field of the Job has no effect on this machine."
)
LOGS_TRUNCATED = _define(
    "LogsTruncated",
    _EVENT,
    "Local backend: the logs of the job exceeded `VCJOB_LOG_LIMIT`, and lines in the middle of a log were removed.",
)
LOGS_LOST = _define(
    "LogsLost",
    _EVENT,
    "Local backend: output of a container cannot be written to its log (a full disk). The container keeps running.",
)

EVENTS_DAMAGED = _define(
    "EventsDamaged",
    _EVENT,
    "Local backend: lines of the file with the events cannot be read and are left out.",
)

# Pods and containers on the local backend

START_ERROR = _define("StartError", _POD, "Local backend: a container's command cannot be executed.")
INIT_FAILED = _define("InitFailed", _POD, "Local backend: an init container failed.")
POD_LOST = _define(
    "PodLost", _POD, "Local backend: the pod's processes were lost together with its supervisor."
)
