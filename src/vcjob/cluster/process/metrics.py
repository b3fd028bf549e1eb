"""The metrics of the controller's process, for Prometheus.

No label holds the name of a Job, namespace or pod, so the number of series does not grow with users. The controller,
its client and the webhook call one method per event; `health` renders the result.
"""

from __future__ import annotations

from collections import Counter as PlainCounter
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from vcjob._version import __version__
from vcjob.cluster.process.histogram import Counted, Histogram
from vcjob.lifecycle.status import Phase

CONTENT_TYPE = CONTENT_TYPE_LATEST
# Without this every counter has a second series with the time of its creation, which no query needs.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotations

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: A policy can name any exit code as a cause; further causes are counted together as "Other".
_CAUSES_KEPT = 32


class _Phases(Collector):
    """The number of Jobs in each phase, counted when it is scraped."""

    def __init__(self) -> None:
        self.count: Callable[[], Mapping[str, int]] = dict

    def collect(self) -> list[GaugeMetricFamily]:
        family = GaugeMetricFamily("vcjob_jobs", "Jobs by phase", labels=["phase"])
        counted = self.count()
        for phase in Phase:
            family.add_metric([phase.value], counted.get(phase, 0))
        return [family]


class _Requests(Collector):
    """The number of requests by verb, resource and status, kept as plain numbers: the library's counter locks."""

    def __init__(self) -> None:
        self.counts: PlainCounter[tuple[str, str, int]] = PlainCounter()

    def collect(self) -> list[CounterMetricFamily]:
        family = CounterMetricFamily(
            "vcjob_api_requests",
            "Requests to the API server; status 0 means no response",
            labels=["verb", "resource", "status"],
        )
        for (verb, resource, status), number in list(self.counts.items()):
            family.add_metric([verb, resource or "other", str(status)], number)
        return [family]


class Metrics:
    """Implements `telemetry.Telemetry` for the controller, and observes its client and the webhook.

    `process.main` owns it and serves `render`. Everything but `render` runs on the event loop and only counts.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        Gauge("vcjob_build_info", "The running version", ["version"], registry=registry).labels(
            __version__
        ).set(1)
        self._phases = _Phases()
        registry.register(self._phases)
        self._transitions = Counter(
            "vcjob_job_transitions", "Phases that Jobs entered", ["phase"], registry=registry
        )
        reconciles = Histogram(
            "vcjob_reconcile_seconds", "Duration of one reconcile of a Job", _QUICK, "outcome"
        )
        self._done = reconciles.of("done")
        self._failed = reconciles.of("failed")
        waits = Histogram(
            "vcjob_queue_wait_seconds", "Time that a Job waited in the queue before its reconcile", _QUICK
        )
        self._waits = waits.of()
        self._depth = Gauge("vcjob_queue_depth", "Jobs that wait in the queue", registry=registry)
        self._requests = _Requests()
        registry.register(self._requests)
        self._request_seconds = Histogram(
            "vcjob_api_request_seconds", "Time that the API server took to respond", _QUICK, "verb"
        )
        all_pods = Histogram(
            "vcjob_seconds_to_all_pods",
            "Time from the creation of a Job to the creation of its last pod",
            _SLOW,
        )
        self._all_pods = all_pods.of()
        for times in (reconciles, waits, self._request_seconds, all_pods):
            registry.register(times)
        self._webhook_requests = Counter(
            "vcjob_webhook_requests",
            "Requests to the admission webhook, by HTTP status",
            ["purpose", "status"],
            registry=registry,
        )
        self._webhook_seconds = Histogram(
            "vcjob_webhook_request_seconds", "Time to answer a request to the webhook", _QUICK, "purpose"
        )
        registry.register(self._webhook_seconds)
        self._certificate_expiry = Gauge(
            "vcjob_webhook_certificate_expiry_timestamp_seconds",
            "When the served certificate of the webhook expires; 0 while none is served",
            registry=registry,
        )
        self._restarts = Counter(
            "vcjob_restarts", "Restarts of Jobs, tasks and pods", ["cause"], registry=registry
        )
        self._response_times: dict[tuple[str, str], Counted | None] = {}
        self._causes: set[str] = set()
        self._leads = Gauge("vcjob_leader", "1 where this replica holds the Lease", registry=registry)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format (`CONTENT_TYPE`). Takes milliseconds: call it on a thread."""
        return generate_latest(self.registry)

    # The controller

    def count_phases(self, count: Callable[[], Mapping[str, int]]) -> None:
        """`count` returns the number of Jobs in each phase."""
        self._phases.count = count

    def leads(self, leading: bool) -> None:
        self._leads.set(leading)
        if not leading:  # another replica reports them now, and its counts are newer
            self._phases.count = dict
            self._depth.set(0)

    def phase_changed(self, phase: str) -> None:
        self._transitions.labels(phase).inc()

    def reconciled(self, seconds: float, failed: bool) -> None:
        (self._failed if failed else self._done).observe(seconds)

    def waited(self, seconds: float) -> None:
        self._waits.observe(seconds)

    def queue_length(self, length: int) -> None:
        self._depth.set(length)

    def all_pods(self, seconds: float) -> None:
        self._all_pods.observe(seconds)

    def restarted(self, cause: str) -> None:
        if cause not in self._causes:
            if len(self._causes) >= _CAUSES_KEPT:
                cause = "Other"
            self._causes.add(cause)
        self._restarts.labels(cause or "Unknown").inc()

    # The webhook

    def reviewed(self, purpose: str, status: int, seconds: float) -> None:
        """A request to `/mutate` or `/validate` was answered."""
        self._webhook_requests.labels(purpose, str(status)).inc()
        self._webhook_seconds.of(purpose).observe(seconds)

    def certificate_expires(self, at: float) -> None:
        self._certificate_expiry.set(at)

    # The client: `Transport(config, observer=metrics.requested)`

    def requested(self, verb: str, resource: str, status: int, seconds: float) -> None:
        self._requests.counts[verb, resource, status] += 1
        try:
            times = self._response_times[verb, resource]
        except KeyError:
            is_stream = verb == "watch" or resource == "pods/log"
            times = None if is_stream else self._request_seconds.of(verb)
            self._response_times[verb, resource] = times
        if times is not None:
            times.observe(seconds)
