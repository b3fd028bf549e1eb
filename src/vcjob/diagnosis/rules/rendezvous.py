"""Ranks that do not meet: the master does not listen, or a rank never connects to it.

Only for running jobs, and only where the backend sees the sockets and the processes. A slow start looks the same for a
while, so these findings need time and are never of high confidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.diagnosis.finding import Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Observation, PodObservation
from vcjob.diagnosis.rules.wording import joined
from vcjob.wellknown import causes

#: A rank must have done nothing for this part of `hang_after`: importing torch takes seconds on a busy machine, and
#: a rank that downloads its data first is no hang.
PATIENCE = 0.75


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
    yield Finding(
        causes.RANK_NOT_CONNECTED,
        f"{joined(names)} {verb} not connected to the master for {_age(observation, missing[0]):.0f} s; "
        f"{joined([pod.name for pod in connected])} {waits} there",
        Ranks(names, tuple(pod.name for pod in connected)),
        (Evidence("sockets", f"port {observation.master_port}: {len(connected)} of {len(running)} ranks"),),
        "see what it does before init_process_group: `vcjob stacks`, or its output with `vcjob logs --rank`",
        "medium",
    )


def _age(observation: Observation, pod: PodObservation) -> float:
    return observation.now - (pod.created_at if pod.created_at is not None else observation.now)
