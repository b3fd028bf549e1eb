"""`diagnose()`: all findings about a job, the most likely first.

Called by both backends' handles. Pure: the same observation always gives the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from vcjob.diagnosis.finding import Finding, ranked
from vcjob.diagnosis.observation import Observation
from vcjob.diagnosis.rules import failure, hang, pending, rendezvous, straggler, transfers
from vcjob.diagnosis.rules.collectives import mismatch
from vcjob.wellknown import causes

Rule: TypeAlias = Callable[[Observation], Iterator[Finding]]

RULES: Sequence[Rule] = (
    failure.lost_nodes,
    pending.pending,
    hang.recorded,
    failure.deadline,
    failure.supervisor_lost,
    failure.evictions,
    failure.failed_ranks,
    failure.stopped_ranks,
)
#: For a backend that watches a running job: these rules compare several observations. `RULES` repeats their findings.
LIVE_RULES: Sequence[Rule] = (
    mismatch.different_collectives,
    hang.rank_behind,
    transfers.unanswered_transfer,
    hang.not_in_the_collective,
    rendezvous.master_not_listening,
    rendezvous.more_ranks_expected,
    rendezvous.master_unreachable,
    rendezvous.not_connected,
    rendezvous.not_in_init,
    straggler.straggler,
)
#: Findings that mean that the job makes no progress; a straggler does.
HANGS = frozenset(
    {
        causes.RANK_BEHIND,
        causes.COLLECTIVE_MISMATCH,
        causes.RANK_NOT_CONNECTED,
        causes.RANK_EXITED_EARLY,
        causes.MASTER_NOT_LISTENING,
        causes.MASTER_UNREACHABLE,
        causes.WORLD_SIZE_MISMATCH,
    }
)


def diagnose(observation: Observation, rules: Sequence[Rule] | None = None) -> list[Finding]:
    found = [finding for rule in (RULES if rules is None else rules) for finding in rule(observation)]
    return ranked(found)
