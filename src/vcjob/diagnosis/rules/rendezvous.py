"""Ranks that do not meet: the master does not listen, a rank never connects to it, or the program expects more ranks.

Only for running jobs. They rest on the stacks of the ranks, and on the sockets where the backend sees them. A slow start
looks the same for a while, so these findings need time; a rank is blamed only if it has done nothing for long.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.diagnosis.finding import Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Frame, Observation, PodObservation, RankState
from vcjob.diagnosis.rules.hang import stack_evidence
from vcjob.diagnosis.rules.wording import joined
from vcjob.wellknown import causes

#: A rank must have done nothing for this part of `hang_after`: importing torch takes seconds on a busy machine, and
#: a rank that downloads its data first is no hang.
PATIENCE = 0.75
_STORE = "_create_c10d_store"
_ELSEWHERE = "it tries to connect to another address or port: use MASTER_ADDR and MASTER_PORT from the environment in every rank"


def not_connected(observation: Observation) -> Iterator[Finding]:
    """Some ranks are connected to the master's port, and others do nothing and are not.

    A rank that waited for a late master has done nothing for long, and tries again only every few seconds: it gets the
    same time from the moment when the first rank is connected.
    """
    patience = observation.hang_after * PATIENCE
    since = observation.rendezvous_since
    if since is None or observation.now - since < patience:
        return
    running = [pod for pod in observation.ranks() if pod.running and pod.connected is not None]
    connected = [pod for pod in running if pod.connected]
    idle = {
        state.rank
        for state in observation.rank_states
        if state.idle_since is not None
        and not state.paused
        and observation.now - state.idle_since >= patience
    }
    missing = [pod for pod in running if not pod.connected and pod.rank in idle]
    if observation.phase != "Running" or not observation.master_listens or not missing or not connected:
        return
    names = tuple(pod.name for pod in missing)
    verb = "has" if len(names) == 1 else "have"
    waits = "waits" if len(connected) == 1 else "wait"
    states = {state.rank: state for state in observation.rank_states}
    ranks = [pod.rank for pod in missing if pod.rank is not None]
    elsewhere = all(rank in states and in_store(states[rank]) for rank in ranks)
    yield Finding(
        causes.RANK_NOT_CONNECTED,
        f"{joined(names)} {verb} not connected to the master for {_pod_age(observation, missing[0]):.0f} s; "
        f"{joined([pod.name for pod in connected])} {waits} there",
        Ranks(names, tuple(pod.name for pod in connected)),
        (
            Evidence("sockets", f"port {observation.master_port}: {len(connected)} of {len(running)} ranks"),
            *stack_evidence(states, ranks),
        ),
        _ELSEWHERE if elsewhere else _before_init(observation, missing[0].rank),
        "medium",
    )


def _before_init(observation: Observation, rank: int | None) -> str:
    job = observation.reference
    return (
        f"see its output before init_process_group with `vcjob logs {job} --rank {rank}`; "
        f"see what it does with `vcjob stacks {job}`"
    )


def _pod_age(observation: Observation, pod: PodObservation) -> float:
    return observation.now - (pod.created_at if pod.created_at is not None else observation.now)


def master_not_listening(observation: Observation) -> Iterator[Finding]:
    """Ranks try to connect to rank 0, which does nothing, or waits for them at another port."""
    master = _state_of(observation, 0)
    if observation.phase != "Running" or observation.master_listens or master is None:
        return
    patience = observation.hang_after * PATIENCE
    waiting = _connecting(observation, patience)
    if not waiting or master.paused or master.groups or _some_rank_works(observation):
        return
    place = (
        f"port {observation.master_port} of the master" if observation.master_port else "the master's port"
    )
    wait = "waits" if len(waiting) == 1 else "wait"
    idle = 0.0 if master.idle_since is None else observation.now - master.idle_since
    if idle >= patience and not in_init(master):
        yield Finding(
            causes.MASTER_NOT_LISTENING,
            f"nothing listens on {place}: rank 0 has done nothing for {idle:.0f} s; "
            f"{joined(waiting)} {wait} to connect to it",
            Ranks(("rank 0",), tuple(waiting)),
            stack_evidence({0: master}, [0]),
            _before_init(observation, 0),
            "medium" if observation.master_listens is None else "high",
        )
    elif observation.master_listens is False and in_store(master) and _age(observation, master) >= patience:
        yield Finding(
            causes.MASTER_NOT_LISTENING,
            f"nothing listens on {place}, and rank 0 has waited in init_process_group for "
            f"{_age(observation, master):.0f} s: it uses another port; {joined(waiting)} {wait} to connect to it",
            Ranks(("rank 0",), tuple(waiting)),
            stack_evidence({0: master}, [0]),
            "use MASTER_PORT from the environment in every rank",
            "medium",
        )


def more_ranks_expected(observation: Observation) -> Iterator[Finding]:
    """Every rank of the Job has joined, and rank 0 waits for more of them."""
    master = _state_of(observation, 0)
    if not _waits_for_ranks(observation, master) or master is None:
        return
    pods = [pod for pod in observation.ranks() if pod.running]
    ended = [pod.name for pod in observation.ranks() if pod.end is not None and pod.end.exit_code == 0]
    others = [state for state in observation.rank_states if state is not master]
    if [pod.rank for pod in pods] != [state.rank for state in observation.rank_states]:
        return  # several ranks in a pod, or one that does not report
    if any(pod.rank is None for pod in observation.pods):
        return  # a program in a pod without a rank may be about to join
    if len(pods) + len(ended) != observation.expected_ranks or any(pod.connected is False for pod in pods):
        return
    if not all(_has_joined(state, observation) for state in others):
        return
    seconds = f"{_age(observation, master):.0f} s"
    names = tuple(pod.name for pod in pods)
    evidence = stack_evidence({state.rank: state for state in observation.rank_states}, [0])
    if ended:
        verb = "has" if len(names) == 1 else "have"
        yield Finding(
            causes.RANK_EXITED_EARLY,
            f"{joined(ended)} ended with exit code 0 and never joined; {joined(names)} {verb} waited for {seconds}",
            Ranks(tuple(ended), names),
            evidence,
            "every rank must call init_process_group",
            "high",
        )
        return
    joined_all = "its only rank has" if len(names) == 1 else f"all {len(names)} ranks have"
    yield Finding(
        causes.WORLD_SIZE_MISMATCH,
        f"the program expects more ranks than the Job has: {joined_all} joined, and rank 0 has waited for more in "
        f"init_process_group for {seconds}",
        Ranks(("rank 0",), names[1:]),
        evidence,
        "use WORLD_SIZE from the environment",
        "high",
    )


def master_unreachable(observation: Observation) -> Iterator[Finding]:
    """Rank 0 waits for ranks that cannot connect to it. For a backend that does not see the sockets."""
    master = _state_of(observation, 0)
    if not _waits_for_ranks(observation, master) or master is None or observation.master_listens is not None:
        return
    waiting = _connecting(observation, observation.hang_after)
    if waiting:
        yield Finding(
            causes.MASTER_UNREACHABLE,
            f"{joined(waiting)} cannot connect to rank 0, which has waited in init_process_group for "
            f"{_age(observation, master):.0f} s",
            Ranks(tuple(waiting), ("rank 0",)),
            stack_evidence({state.rank: state for state in observation.rank_states}, [0]),
            "check network policies and firewalls between the pods, and that all ranks use MASTER_ADDR and MASTER_PORT "
            "of the environment",
            "medium",
        )


def not_in_init(observation: Observation) -> Iterator[Finding]:
    """As `not_connected`, by the stacks, for a backend that does not see the sockets."""
    master = _state_of(observation, 0)
    patience = observation.hang_after * PATIENCE
    if any(pod.connected is not None for pod in observation.pods) or master is None:
        return
    if not _waits_for_ranks(observation, master) or _some_rank_works(observation):
        return
    idle = {
        state.rank: state.idle_since
        for state in observation.rank_states
        if state.idle_since is not None
        and observation.now - state.idle_since >= patience
        and not (state.paused or state.groups or in_init(state))
    }
    if idle:
        missing = [f"rank {rank}" for rank in sorted(idle)]
        verb = "has" if len(missing) == 1 else "have"
        seconds = observation.now - max(idle.values())
        yield Finding(
            causes.RANK_NOT_CONNECTED,
            f"{joined(missing)} {verb} not called init_process_group and {verb} done nothing for {seconds:.0f} s; "
            f"rank 0 waits there",
            Ranks(tuple(missing), ("rank 0",)),
            stack_evidence({state.rank: state for state in observation.rank_states}, [0]),
            _before_init(observation, min(idle)),
            "medium",
        )


def in_store(state: RankState) -> bool:
    """Whether the rank makes the connection through which the ranks meet. Rank 0 stays in it until all others have
    connected, another rank only until it has connected itself."""
    return any(_is(frame, _STORE, "/distributed/rendezvous.py") for frame in state.stack)


def in_init(state: RankState) -> bool:
    """Whether the rank is in `init_process_group`."""
    return in_store(state) or any(
        _is(frame, "init_process_group", "/distributed_c10d.py") for frame in state.stack
    )


def _is(frame: Frame, function: str, file: str) -> bool:
    return frame.function.rsplit(".", 1)[-1] == function and frame.file.endswith(file)


def _state_of(observation: Observation, rank: int) -> RankState | None:
    return next((state for state in observation.rank_states if state.rank == rank), None)


def _waits_for_ranks(observation: Observation, master: RankState | None) -> bool:
    """Rank 0 has waited so long for others to connect that each report is newer than that."""
    if observation.phase != "Running" or master is None or master.paused or master.groups:
        return False
    return in_store(master) and _age(observation, master) >= observation.hang_after


def _connecting(observation: Observation, patience: float) -> list[str]:
    """Ranks other than 0 that have tried for so long to connect to the master."""
    ranks = {
        state.rank
        for state in observation.rank_states
        if state.rank != 0 and in_store(state) and not (state.paused or state.groups)
        if _age(observation, state) >= patience
    }
    for pod in observation.ranks():
        since = pod.waits_for_master_since
        if pod.rank and since is not None and observation.now - since >= patience:
            ranks.add(pod.rank)
    return [f"rank {rank}" for rank in sorted(ranks)]


def _has_joined(state: RankState, observation: Observation) -> bool:
    """Whether it has been connected for so long that rank 0 must have noticed."""
    if state.paused or in_store(state) or not (in_init(state) or state.groups):
        return False
    first = min((call.issued_at for call in state.collectives), default=observation.now)
    return max(_age(observation, state), observation.now - first) >= observation.hang_after


def _some_rank_works(observation: Observation) -> bool:
    """Whether a rank works before it joins: an idle one may wait for it, for example for a file that it downloads."""
    return any(
        state.paused or (state.idle_since is None and not in_init(state) and not state.groups)
        for state in observation.rank_states
    )


def _age(observation: Observation, state: RankState) -> float:
    """For how long the functions on its stack have been the same."""
    return 0.0 if state.stack_since is None else observation.now - state.stack_since
