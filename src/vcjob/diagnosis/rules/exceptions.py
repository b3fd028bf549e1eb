"""Matchers for Python exceptions: those with a known cause and remedy, and all others.

`failure` asks them about a failed rank, in the order of `MATCHERS`. They read the traceback and the last lines only;
the known exceptions are listed in `remedies`.
"""

from __future__ import annotations

import re

from vcjob.diagnosis.rules.remedies import HINTS, REMEDIES, UNRESOLVED
from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.suspect import Suspect
from vcjob.diagnosis.text.frames import Traceback
from vcjob.wellknown import causes

_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)")
#: What `python -m` says.
_RUN_MODULE = re.compile(
    r"python[\d.]{0,9}: (?:No module named ([\w.]{1,200})|Error while finding module specification for '([\w.]{1,200})')"
)
#: The module os, which newer Pythons contain.
_OS = re.compile(r"^<frozen os>$|/os\.py$")
_SCRIPT = re.compile(r"can't open file '([^']+)'|can't open file \"([^\"]+)\"")
_HOST = re.compile(
    r"(?:host=|(?:resolve|retrieve) (?:host(?:name)?(?: address)?:? )?|bad address )['‘]?([\w.-]{1,253})"
)


def missing_module(suspect: Suspect) -> Verdict | None:
    run = _RUN_MODULE.search(suspect.reason)
    if run is not None:
        return Verdict(
            causes.MODULE_NOT_FOUND,
            f"cannot run the module {run[1] or run[2]}: its Python does not find it",
            "check the module's name, the working directory (workingDir) and PYTHONPATH",
        )
    found = next(filter(None, map(_MODULE.search, suspect.reasons)), None)
    if found is None:
        return None
    module = found[1]
    return Verdict(
        causes.MODULE_NOT_FOUND,
        f"cannot import {module}: it is not installed in the rank's Python",
        f"install it there (`pip install {module.split('.')[0]}`), or use an environment or image that has it",
    )


def missing_script(suspect: Suspect) -> Verdict | None:
    found = _SCRIPT.search(suspect.last_line)
    if found is None:
        return None
    return Verdict(
        causes.FILE_NOT_FOUND,
        f"cannot open its script {found[1] or found[2]}",
        "check the path and the working directory (workingDir, or where `vcjob run` was called)",
    )


def known(suspect: Suspect) -> Verdict | None:
    text = suspect.traceback.text if suspect.traceback else suspect.reason
    for remedy in REMEDIES:
        if remedy.of_torch and not suspect.is_about_communication:
            continue
        match = remedy.pattern.search(text)
        if match and (remedy.names is None or remedy.names.search(text)):
            said = _quoted(suspect, text, match.start())
            return Verdict(remedy.cause, f"{remedy.what}: {said}", remedy.hint, remedy.confidence)
    return None


def _quoted(suspect: Suspect, text: str, start: int) -> str:
    """The line of the message that shows the cause, which is not always the first."""
    if start <= len(suspect.reason):
        return suspect.reason
    return text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0].strip()


def unknown_host(suspect: Suspect) -> Verdict | None:
    """A name that the program itself resolves: a model hub, an object store, a database."""
    text = suspect.traceback.text if suspect.traceback else suspect.reason
    if not UNRESOLVED.search(text):
        return None
    host = _HOST.search(text)
    return Verdict(
        causes.HOST_NOT_RESOLVED,
        f"could not resolve {host[1] if host else 'a host name'}: {suspect.reason}",
        "check the name and the DNS where the rank runs, or set HTTPS_PROXY; models and data sets can be read from a "
        "mounted cache: set HF_HOME and HF_HUB_OFFLINE=1",
    )


def any_exception(suspect: Suspect) -> Verdict | None:
    found = suspect.traceback
    if found is None:
        return None
    own = found.own_frame
    place = f" ({own})" if own else ""
    # Without a message the line of code says more than the exception.
    said = (
        f"{found.exception} at `{own.code}`"
        if own and own.code and ":" not in found.exception
        else found.exception
    )
    hint = _unset_variable(found) or next((hint for pattern, hint in HINTS if pattern.search(found.text)), "")
    return Verdict(causes.EXCEPTION, f"raised {said}{place}{_led_to_it(found)}", hint)


def _led_to_it(found: Traceback) -> str:
    """The first exception of a chain, where the last one does not repeat it."""
    first = found.chain[-1]
    what = first.exception.partition(": ")[2] or first.exception
    if first is found or what in found.text.partition("\n")[0]:
        return ""
    return f", {'caused by' if found.is_caused else 'while it handled'} {first.exception}"


def _unset_variable(found: Traceback) -> str:
    """`os.environ["NAME"]` of a variable that is not set."""
    inner = found.frames[-1] if found.frames else None
    if (
        found.type != "KeyError"
        or inner is None
        or inner.function != "__getitem__"
        or not _OS.search(inner.file)
    ):
        return ""
    name = found.exception.partition(": ")[2].strip("'\"")
    return f"set the environment variable {name}: in the env of the container, or locally with `vcjob run --env {name}=VALUE`"
