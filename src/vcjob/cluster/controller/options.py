"""The options of a controller.

`vcjob controller` fills them in from its arguments, and `vcjob install` takes its defaults from here. Plain data:
values are checked by the command line.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob.kube.controller.lease import LeaseSettings

GangChoice: TypeAlias = Literal["auto", "none", "volcano", "coscheduling"]


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one controller. Immutable; the defaults suit an installation by `vcjob install`.

    `process.main` makes it from the command line, and hands it to everything that it starts.
    """

    #: The namespaces whose Jobs are reconciled; None: all.
    namespaces: tuple[str, ...] | None = None
    #: Number of Jobs reconciled concurrently. The client's window bounds the requests in flight.
    workers: int = 16
    gang: GangChoice = "auto"
    #: schedulerName for pods that request `volcano` when its scheduler is not running; None: the cluster's default.
    scheduler: str | None = None
    #: The namespace in which Volcano itself runs.
    volcano_namespace: str = "volcano-system"
    #: Run although Volcano's controller manager runs: its job controller was switched off in a way that we cannot see.
    beside_volcano: bool = False

    identity: str | None = None
    lease_name: str = "vcjob-controller"
    lease_namespace: str = "vcjob-system"
    lease: LeaseSettings = LeaseSettings()

    #: Read the last lines of pods that failed, to name the cause on the Job. Needs the right to read `pods/log`.
    failure_logs: bool = True

    #: Seconds for which counter-only status changes are batched.
    status_delay: float = 1.0
    #: Pods that are created in one reconcile.
    creation_chunk: int = 500

    webhook: bool = True
    webhook_port: int = 8443
    health_port: int = 8080
    metrics_port: int = 8081
    #: Addresses to listen on; an empty one is every address.
    host: str = ""
    #: The Service of the webhook, and the Secret with its CA and certificate.
    service_name: str = "vcjob-webhook"
    certificate_secret: str = "vcjob-webhook-tls"  # noqa: S105 - the name of a Secret

    log_level: str = "info"
    log_json: bool = True
    profile: str | None = None
