"""Pods of a cluster in the data types that both backends use (`report`).

Plain functions: they translate what the API server recorded, and ask nobody.
"""

from __future__ import annotations

from typing import cast

from vcjob.cluster.client.pod_view import PodView
from vcjob.cluster.controller.cache.pending_reasons import node_lost
from vcjob.cluster.controller.cache.pod_facts import fact_of
from vcjob.cluster.resources import ContainerStatus, Terminated, epoch
from vcjob.report.podstate import ContainerState, Ended, Phase, PodState, Role


def pod_state(pod: PodView) -> PodState:
    fact = fact_of(pod)
    steps = {step.name: step for step in pod.spec.init_containers}
    containers = []
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        step = steps.get(status.name)
        role: Role = "main" if step is None else "sidecar" if step.restart_policy == "Always" else "init"
        containers.append(_container(status, role))
    deletion = pod.metadata.deletion_timestamp
    conditions = {each.type: each for each in pod.status.conditions if each.status == "True"}
    scheduled, disruption = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    return PodState(
        task=pod.task,
        index=pod.index,
        name=pod.name,
        uid=pod.uid,
        version=pod.version,
        attempt=pod.attempt,
        rank=pod.rank,
        node_rank=pod.node_rank,
        node=pod.spec.node_name or None,
        phase=cast(Phase, pod.status.phase),
        reason=pod.status.reason or None,
        message=pod.status.message or None,
        created_at=epoch(pod.metadata.creation_timestamp) or 0.0,
        started_at=fact.started if fact else None,
        finished_at=fact.finished if fact else None,
        deleted_at=epoch(deletion),
        waits_for_node=not pod.spec.node_name,
        scheduled_at=epoch(scheduled.last_transition_time) if scheduled else None,
        disruption=disruption.reason or None if disruption else None,
        disruption_message=disruption.message or None if disruption else None,
        node_lost=node_lost(pod),
        containers=containers,
    )


def _container(status: ContainerStatus, role: Role) -> ContainerState:
    state, waiting = status.state, status.state.waiting
    begun = state.running or state.terminated or status.last_state.terminated
    return ContainerState(
        name=status.name,
        role=role,
        started_at=epoch(begun.started_at) if begun else None,
        waiting=waiting.reason or None if waiting else None,
        waiting_message=waiting.message or None if waiting else None,
        started=state.running is not None,
        restarts=status.restart_count,
        ended=_ended(state.terminated),
        last=_ended(status.last_state.terminated),
    )


def _ended(ended: Terminated | None) -> Ended | None:
    if ended is None:
        return None
    code = ended.exit_code
    return Ended(
        exit_code=code,
        reason=ended.reason,
        finished_at=epoch(ended.finished_at) or 0.0,
        signal=code - 128 if 128 < code < 193 else None,
        message=ended.message or None,
        started_at=epoch(ended.started_at),
    )
