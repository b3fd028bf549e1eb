"""Where the time of a job went, from the recorded states of its pods."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from vcjob.report.podstate import ContainerState, Ended, PodState
from vcjob.report.timeline import LABELS, RankStart, Timeline, timeline_of
from vcjob.report.timeline_drawing import _LOOK


def container(name: str, role: str, start: float, end: float | None, code: int = 0) -> ContainerState:
    ended = None if end is None else Ended(code, "Error" if code else "Completed", end, started_at=start)
    return ContainerState(name=name, role=role, started_at=start, ended=ended)  # type: ignore[arg-type]


def worker(**fields: object) -> PodState:
    state = PodState(task="worker", index=0, name="job-worker-0", uid="u", rank=1, created_at=102.0)
    for name, value in fields.items():
        setattr(state, name, value)
    return state


_LIVED = worker(
    finished_at=120.0,
    containers=[
        container("wait-for-master", "init", 103.0, 105.0),
        container("prepare", "init", 105.0, 106.0),
        container("main", "main", 106.0, 120.0),
    ],
)


def spans(timeline: Timeline) -> list[tuple[str, float, float]]:
    return [(span.kind, span.start, span.end) for span in timeline.rows[0].spans]


def test_a_pods_life_is_cut_into_spans_without_gaps() -> None:
    timeline = timeline_of("job", 100.0, 120.0, [_LIVED], 500.0)
    assert spans(timeline) == [
        ("Waiting", 100.0, 102.0),
        ("Startup", 102.0, 103.0),
        ("WaitForMaster", 103.0, 105.0),
        ("Init", 105.0, 106.0),
        ("Running", 106.0, 120.0),
    ]
    assert timeline.summary == (
        "20.0s, 1 pod: running 14.0s (70%), waiting to be created 2.0s (10%), waiting for the master 2.0s (10%), "
        "starting 1.0s (5%), init steps 1.0s (5%)"
    )


def test_a_restarted_container_shows_its_previous_instance_and_the_wait() -> None:
    main = container("main", "main", 110.0, None)
    main.last = Ended(1, "Error", 105.0, started_at=103.0)
    timeline = timeline_of("job", 100.0, None, [worker(containers=[main])], 112.0)
    assert spans(timeline)[2:] == [
        ("Running", 103.0, 105.0),
        ("Backoff", 105.0, 110.0),
        ("Running", 110.0, 112.0),
    ]
    assert timeline.rows[0].spans[2].detail == "Error, exit code 1"


def test_what_a_rank_reports_about_its_start_divides_the_time_in_which_it_ran() -> None:
    starts = [
        RankStart(108.0, None),  # a helper of the rank
        RankStart(109.0, 112.0),
        RankStart(105.5, 105.9),  # of another instance
    ]
    timeline = timeline_of("job", 100.0, 120.0, [_LIVED], 500.0, starts={"u": starts})
    assert spans(timeline)[4:] == [
        ("Imports", 106.0, 109.0),
        ("FirstCollective", 109.0, 112.0),
        ("Running", 112.0, 120.0),
    ]
    assert timeline.rows[0].spans[-1].detail == "Completed"
    assert timeline.to_text(40)[0] == "rank 1 (worker-0)  ··smmi░░░▒▒▒████████"
    assert "imports 3.0s (15%), before the first collective 3.0s (15%)" in timeline.summary
    assert "<title>before the first collective, 3.0s, attempt 0</title>" in timeline.to_svg()
    names = [event["name"] for event in timeline.to_chrome_trace()["traceEvents"]]
    assert names[-3:] == ["imports", "before the first collective", "running"]


def test_a_rank_without_collectives_shows_its_imports_and_one_that_reported_no_end_of_them_its_collective() -> (
    None
):
    imports = timeline_of("job", 100.0, 120.0, [_LIVED], 500.0, starts={"u": [RankStart(109.0, None)]})
    assert [kind for kind, _, _ in spans(imports)[4:]] == ["Imports", "Running"]
    collective = timeline_of("job", 100.0, 120.0, [_LIVED], 500.0, starts={"u": [RankStart(None, 112.0)]})
    assert [kind for kind, _, _ in spans(collective)[4:]] == ["FirstCollective", "Running"]


def test_attempts_of_one_pod_share_a_row_and_an_end_from_outside_is_shown() -> None:
    first = worker(deleted_at=110.0, finished_at=111.0, containers=[container("main", "main", 103.0, 111.0)])
    second = worker(attempt=1, created_at=112.0, containers=[container("main", "main", 113.0, None)])
    timeline = timeline_of("job", 102.0, None, [second, first], 120.0)
    assert spans(timeline) == [
        ("Startup", 102.0, 103.0), ("Running", 103.0, 110.0), ("Ending", 110.0, 111.0),
        ("Waiting", 111.0, 112.0), ("Startup", 112.0, 113.0), ("Running", 113.0, 120.0),
    ]  # fmt: skip
    assert [span.attempt for span in timeline.rows[0].spans] == [0, 0, 0, 1, 1, 1]


def test_text_bars_show_what_takes_most_of_each_column() -> None:
    lines = timeline_of("job", 100.0, 120.0, [_LIVED], 0.0).to_text(40)
    assert lines[0] == "rank 1 (worker-0)  ··smmi██████████████"
    assert lines[-1].startswith("· waiting to be created  s starting")


def test_a_job_without_pods_says_so() -> None:
    timeline = timeline_of("job", 100.0, None, [], 101.0)
    assert timeline.to_text(80) == [] and timeline.summary == "no pod of job has been created yet"
    ElementTree.fromstring(timeline.to_svg())
    assert timeline.to_dict()["pods"] == []


TIMES = st.floats(0, 2e9)
CONTAINERS = st.builds(
    ContainerState,
    name=st.text(max_size=5),
    role=st.sampled_from(["init", "sidecar", "main"]),
    started_at=st.none() | TIMES,
    waiting=st.none() | st.just("CrashLoopBackOff"),
    ended=st.none()
    | st.builds(Ended, st.integers(0, 255), st.text(max_size=5), TIMES, started_at=st.none() | TIMES),
    last=st.none()
    | st.builds(Ended, st.integers(0, 255), st.text(max_size=5), TIMES, started_at=st.none() | TIMES),
)
PODS = st.builds(
    PodState,
    task=st.text(max_size=5),
    index=st.integers(0, 2),
    name=st.just("p"),
    uid=st.just("u"),
    attempt=st.integers(0, 2),
    rank=st.none() | st.integers(0, 3),
    created_at=TIMES,
    scheduled_at=st.none() | TIMES,
    pulling_at=st.none() | TIMES,
    pulled_at=st.none() | TIMES,
    finished_at=st.none() | TIMES,
    deleted_at=st.none() | TIMES,
    containers=st.lists(CONTAINERS, max_size=3),
)


STARTS = st.builds(RankStart, st.none() | TIMES, st.none() | TIMES)


@given(
    st.text(max_size=8),
    TIMES,
    st.none() | TIMES,
    st.lists(PODS, max_size=4),
    TIMES,
    st.lists(STARTS, max_size=3),
)
def test_any_recorded_times_give_ordered_spans_and_valid_documents(
    name: str,
    created: float,
    finished: float | None,
    pods: list[PodState],
    now: float,
    starts: list[RankStart],
) -> None:
    timeline = timeline_of(name, created, finished, pods, now, starts={"u": starts})
    for row in timeline.rows:
        for span in row.spans:
            assert timeline.start <= span.start < span.end <= timeline.end
        for one, other in pairwise(row.spans):
            assert one.end <= other.start
    assert sum(timeline.totals.values()) <= timeline.end - timeline.start + 1e-3
    ElementTree.fromstring(timeline.to_svg().encode())
    trace = json.loads(json.dumps(timeline.to_chrome_trace()))
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in trace["traceEvents"] if event["ph"] == "X")
    assert len({len(line) > 0 for line in timeline.to_text(80)}) <= 2
    assert timeline.summary


def test_a_pod_of_a_cluster_waits_for_a_node_and_pulls_its_image_before_it_starts() -> None:
    main = ContainerState(
        "main", "main", started_at=130.0, ended=Ended(0, "Completed", 150.0, started_at=130.0)
    )
    pod = PodState(
        "a", 0, "j-a-0", "u", phase="Succeeded", created_at=101.0, scheduled_at=105.0, pulling_at=107.0,
        pulled_at=127.0, finished_at=150.0, containers=[main],
    )  # fmt: skip
    timeline = timeline_of("j", 100.0, 150.0, [pod], 200.0)
    found = timeline.rows[0].spans
    kinds = [(span.kind, span.start, span.end) for span in found]
    assert kinds == [
        ("Waiting", 100.0, 101.0),
        ("Scheduling", 101.0, 105.0),
        ("Startup", 105.0, 107.0),
        ("Pulling", 107.0, 127.0),
        ("Startup", 127.0, 130.0),
        ("Running", 130.0, 150.0),
    ]
    bar, _, legend = timeline.to_text(56)
    assert bar == "a-0  ·nnnnssppppppppppppppppppppsss████████████████████"
    assert legend == (
        "· waiting to be created  n waiting for a node  p pulling images  s starting  █ running"
    )
    drawn = "".join(ElementTree.fromstring(timeline.to_svg()).itertext())
    assert "waiting for a node, 4.0s" in drawn and "pulling images, 20.0s" in drawn


def test_every_kind_of_span_has_its_own_mark_and_colour() -> None:
    assert _LOOK.keys() == LABELS.keys()
    marks, colours = zip(*_LOOK.values(), strict=True)
    assert len({*marks}) == len({*colours}) == len(LABELS)


def test_a_pod_without_a_node_waits_for_one_until_now() -> None:
    pod = PodState("a", 0, "j-a-0", "u", created_at=101.0, waits_for_node=True)
    (_, waits) = timeline_of("j", 100.0, None, [pod], 160.0).rows[0].spans
    assert (waits.kind, waits.end) == ("Scheduling", 160.0)
