"""Matchers for ranks that gave up because they did not meet: at the master's port, or with too few of them.

`failure` asks them about a failed rank, and they read what it printed. Ranks that still wait are the subject of
`rendezvous`.
"""

from __future__ import annotations

import re

from vcjob.diagnosis.rules.remedies import UNRESOLVED
from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.rules.wording import joined
from vcjob.diagnosis.suspect import Suspect
from vcjob.plugins.wait import (
    CONTAINER_NAME,
    WAIT_EXIT_CODES,
    WAIT_NO_PROBE_EXIT_CODE,
    WAIT_TIMEOUT_EXIT_CODE,
    last_error,
)
from vcjob.wellknown import causes

_STORE_WAIT = re.compile(r"wait timeout after \d+ms, keys:|Timed out after \d+ seconds waiting for")
#: What torch's store says on a worker; the lengths are those of a host name and of a port.
_NOT_CONNECTED = re.compile(
    r"The client socket has timed out after (\d{1,18})ms while trying to connect to \((\S{1,300}), (\d{1,5})\)"
)
_NOT_ACCEPTED = re.compile(
    r"failed to connect to (\S{1,300}):(\d{1,5})\b.{0,100}(?:Connection refused|ECONNREFUSED)"
)
_REFUSED = re.compile(r"Connection refused|ECONNREFUSED")
_NO_ROUTE = re.compile(r"No route to host|Network is unreachable|errno: 110\b")
_LOOPBACK = re.compile(r"\[?(?:127\.|localhost\b|::1\b)")
#: What wait-for-master says in the end: where, how long, why. `^`: a search is as cheap as a match.
_NO_ANSWER = re.compile(r"^(\S{1,300}) did not answer within (\d{1,18}) s: (.*?)(?: \(by |$)")
_CLIENTS = re.compile(r"waiting for clients\. (\d+)/(\d+) clients joined")


def wait_for_master(suspect: Suspect) -> Verdict | None:
    """The init container of a worker that waits for the master ran out of time."""
    if suspect.pod.container != CONTAINER_NAME or suspect.end.exit_code not in WAIT_EXIT_CODES:
        return None
    said = last_error(suspect.last_line or suspect.end.message)
    if suspect.end.exit_code == WAIT_NO_PROBE_EXIT_CODE:
        return Verdict(
            causes.NO_PROBE_TOOL,
            f"cannot wait for the master: {said}",
            "choose another image with --wait-master-image, or add one of these programs",
        )
    if suspect.end.exit_code != WAIT_TIMEOUT_EXIT_CODE:
        return None
    found = _NO_ANSWER.match(said)
    # The evidence quotes the line in full.
    waited = f"waited {found[2]} s for the master at {found[1]}" if found else "waited for the master"
    if "does not resolve" in said:
        return Verdict(
            causes.MASTER_NAME_NOT_RESOLVED,
            f"{waited}, whose name does not resolve",
            "keep the svc plugin on, so that pods have names",
        )
    if suspect.pod.blocked_by:
        return Verdict(
            causes.MASTER_UNREACHABLE,
            f"{waited}, to which the NetworkPolicy {joined(suspect.pod.blocked_by)} allows no connection",
            "allow connections between the pods of the Job, or keep the policy of the svc plugin on",
        )
    if "refused" in said:
        return Verdict(
            causes.MASTER_NOT_LISTENING,
            f"{waited}, and nothing listened there",
            "check that the master's program runs and listens on MASTER_PORT",
        )
    return Verdict(
        causes.MASTER_UNREACHABLE,
        f"{waited}, which did not answer" + ("" if not found or found[3] == "no answer" else f": {found[3]}"),
        "check network policies and firewalls between the pods",
    )


def clients_missing(suspect: Suspect) -> Verdict | None:
    """The master's store saw fewer ranks than the program expects."""
    found = _CLIENTS.search(suspect.traceback.text if suspect.traceback else suspect.reason)
    if found is None:
        return None
    return Verdict(
        causes.WORLD_SIZE_MISMATCH,
        f"expected {found[2]} ranks, and {found[1]} joined",
        "use WORLD_SIZE from the environment, and check that every rank calls init_process_group",
    )


def master_not_reached(suspect: Suspect) -> Verdict | None:
    """A worker gave up connecting to the store of the master. torch's warnings before that may say why."""
    if suspect.traceback is None:
        return None  # a warning of the start says nothing about the end
    text = suspect.traceback.text
    timeout = _NOT_CONNECTED.search(text)
    refused = None if timeout or not suspect.is_about_communication else _NOT_ACCEPTED.search(text)
    if timeout is None and refused is None:
        return None
    host, port = timeout.groups()[1:] if timeout else refused.groups() if refused else ("", "")
    tried = f"could not connect to the master at {host}:{port}"
    if timeout:
        tried += f" within {int(timeout[1]) / 1000:g} s"
    warnings = "\n".join(line for line in suspect.lines if "[c10d]" in line)
    first = "--wait-master-enabled=true of the plugin pytorch makes the workers wait until the master listens"
    if timeout and UNRESOLVED.search(warnings):
        return Verdict(
            causes.MASTER_NAME_NOT_RESOLVED,
            f"{tried}: its name does not resolve",
            f"keep the svc plugin on, so that pods have names; check MASTER_ADDR; {first}",
        )
    if suspect.pod.blocked_by or (timeout and _NO_ROUTE.search(warnings)):
        return Verdict(
            causes.MASTER_UNREACHABLE,
            f"{tried}: its address does not answer",
            "check network policies and firewalls between the pods, or keep the policy of the svc plugin on",
        )
    certain = refused is not None or _REFUSED.search(warnings) or _LOOPBACK.match(host)
    return Verdict(
        causes.MASTER_NOT_LISTENING,
        f"{tried}: nothing listens there" if certain else tried,
        f"check that the master runs and listens on MASTER_PORT, and that the svc plugin is on; {first}",
        "high" if certain else "medium",
    )


def init_timed_out(suspect: Suspect) -> Verdict | None:
    """`init_process_group` gave up: fewer ranks joined than the program expects."""
    found = suspect.traceback
    if found is None or not _STORE_WAIT.search(found.text):
        return None
    if not any(frame.function == "init_process_group" for frame in found.frames):
        return None
    return Verdict(
        causes.WORLD_SIZE_MISMATCH,
        f"gave up in init_process_group ({found.own_frame}): not all ranks that it expects joined",
        "compare the program's world_size with the number of ranks of the Job, and check that every rank "
        "calls init_process_group",
        "medium",
    )
