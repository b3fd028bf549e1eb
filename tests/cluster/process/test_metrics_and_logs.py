"""The metrics and the log lines of the controller's process."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from vcjob.cluster.process.json_logging import set_up_logging
from vcjob.cluster.process.metrics import Metrics


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_phases_are_those_of_the_moment_somebody_looks() -> None:
    metrics = Metrics()
    phases = {"Running": 2}
    metrics.count_phases(lambda: phases)
    assert sample(metrics, "vcjob_jobs", phase="Running") == 2
    phases["Running"] = 1
    assert sample(metrics, "vcjob_jobs", phase="Running") == 1
    assert sample(metrics, "vcjob_jobs", phase="Failed") == 0


def test_a_replica_that_leads_no_more_reports_no_jobs() -> None:
    metrics = Metrics()
    metrics.leads(True)
    metrics.count_phases(lambda: {"Running": 2})
    metrics.queue_length(7)
    metrics.leads(False)
    assert sample(metrics, "vcjob_jobs", phase="Running") == 0, "the next leader counts the same Jobs"
    assert sample(metrics, "vcjob_queue_depth") == 0


def test_requests_are_counted_by_verb_resource_and_status() -> None:
    metrics = Metrics()
    metrics.requested("create", "pods", 201, 0.01)
    metrics.requested("create", "pods", 429, 0.01)
    metrics.requested("create", "pods", 201, 0.01)
    counted = "vcjob_api_requests_total"
    assert sample(metrics, counted, verb="create", resource="pods", status="201") == 2
    assert sample(metrics, counted, verb="create", resource="pods", status="429") == 1
    assert sample(metrics, "vcjob_api_request_seconds_count", verb="create") == 3


def test_the_time_to_all_pods_is_summed() -> None:
    metrics = Metrics()
    metrics.all_pods(20.0)
    metrics.all_pods(3.0)
    assert sample(metrics, "vcjob_seconds_to_all_pods_count") == 2
    assert sample(metrics, "vcjob_seconds_to_all_pods_sum") == 23.0


def test_reviews_are_counted_by_purpose_and_status() -> None:
    metrics = Metrics()
    for status in (200, 200, 413):
        metrics.reviewed("validate", status, 0.002)
    counted = "vcjob_webhook_requests_total"
    assert sample(metrics, counted, purpose="validate", status="200") == 2
    assert sample(metrics, counted, purpose="validate", status="413") == 1
    assert sample(metrics, "vcjob_webhook_request_seconds_count", purpose="validate") == 3


def test_the_expiry_of_the_certificate_is_shown() -> None:
    metrics = Metrics()
    metrics.certificate_expires(1_900_000_000.0)
    assert sample(metrics, "vcjob_webhook_certificate_expiry_timestamp_seconds") == 1_900_000_000.0


def test_counters_have_no_second_series_with_their_creation_time() -> None:
    metrics = Metrics()
    metrics.requested("create", "pods", 201, 0.01)
    metrics.reviewed("mutate", 200, 0.01)
    assert b"_created" not in metrics.render()


def test_causes_of_restarts_never_grow_without_end() -> None:
    metrics = Metrics()
    for code in range(100):
        metrics.restarted(f"ExitCode{code}")
    metrics.restarted("ExitCode3")
    assert sample(metrics, "vcjob_restarts_total", cause="ExitCode3") == 2
    assert sample(metrics, "vcjob_restarts_total", cause="Other") == 68


def test_all_of_it_can_be_scraped() -> None:
    metrics = Metrics()
    metrics.phase_changed("Pending")
    metrics.reconciled(0.002, False)
    metrics.reconciled(0.002, True)
    metrics.waited(0.001)
    metrics.queue_length(7)
    text = metrics.render().decode()
    assert 'vcjob_job_transitions_total{phase="Pending"} 1.0' in text
    assert 'vcjob_reconcile_seconds_count{outcome="failed"} 1.0' in text
    assert "vcjob_queue_depth 7.0" in text


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    set_up_logging("info", stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def test_a_log_line_is_an_object_with_the_job_and_its_uid(lines: io.StringIO) -> None:
    log = logging.getLogger("vcjob.test")
    log.info("%s is %s", "a", "Running", extra={"job": "team/a", "uid": "u-1"})
    log.debug("not shown")
    (line,) = (json.loads(text) for text in lines.getvalue().splitlines())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "vcjob.test",
        "message": "a is Running",
        "job": "team/a",
        "uid": "u-1",
    }


def test_an_error_stays_on_one_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("vcjob.test").exception("it broke")
    (line,) = (json.loads(text) for text in lines.getvalue().splitlines())
    assert "ValueError: two\nlines" in line["error"]
