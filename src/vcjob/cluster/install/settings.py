"""The settings of an installation, and the names and labels of its objects.

`vcjob install` fills `Settings` in from its options; the modules of `install` build, find and check objects by them.
Defaults that the controller has too come from `ControllerOptions`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob._version import __version__
from vcjob.cluster.controller.options import ControllerOptions, GangChoice

FailurePolicy: TypeAlias = Literal["Ignore", "Fail"]

#: The minors of Kubernetes that this release supports: the newest four when it was made.
SUPPORTED_KUBERNETES = ("1.33", "1.34", "1.35", "1.36")

NAME = "vcjob-controller"
IMAGE = f"vcjob:{__version__}"
_DEFAULTS = ControllerOptions()
NAMESPACE = _DEFAULTS.lease_namespace
#: The manifests do not pass these: the controller's defaults are used.
SERVICE, SECRET, LEASE = _DEFAULTS.service_name, _DEFAULTS.certificate_secret, _DEFAULTS.lease_name
WEBHOOK_PORT = _DEFAULTS.webhook_port
HEALTH_PORT, METRICS_PORT = _DEFAULTS.health_port, _DEFAULTS.metrics_port
#: The name of both webhook configurations.
CONFIGURATION = "vcjob-jobs"
#: The Service for Prometheus.
METRICS = "vcjob-metrics"

MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
OURS = {MANAGED_BY: "vcjob", PART_OF: "vcjob"}
#: Selects every object of an installation.
SELECTOR = f"{MANAGED_BY}=vcjob,{PART_OF}=vcjob"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator can choose about an installation.

    The command line fills it in; doctor derives it from the Deployment that it finds. The values are checked by the
    command line's options.
    """

    namespace: str = NAMESPACE
    image: str = IMAGE
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    replicas: int = 2
    #: The namespaces whose Jobs are served; empty: all.
    namespaces: tuple[str, ...] = ()
    gang: GangChoice = "auto"
    volcano_namespace: str = _DEFAULTS.volcano_namespace
    beside_volcano: bool = False
    #: Let the controller read the last lines of pods that failed, to name the cause on the Job.
    failure_logs: bool = True
    webhook: bool = True
    #: What the API server does with a Job when no replica answers (docs/decisions/0008).
    failure_policy: FailurePolicy = "Ignore"
    log_level: str = "info"
    cpu: str = "100m"
    memory: str = "128Mi"
    memory_limit: str = "1Gi"
