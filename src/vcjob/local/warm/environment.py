"""Which environment variables decide what an import does, and which come and go with a run or a terminal.

Some variables act when a program or a library is loaded and never after: a rank that is forked later cannot be
given another value. Others are set by us per rank, or belong to the terminal a command was typed in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vcjob.local.machine.process import MARK_RUN
from vcjob.local.warm.zygote.imported_modules import ACTS_AT_START, INJECTED

#: Of the terminal or the session a command was typed in; no library that computes reads them.
SESSION = re.compile(
    r"(_|PWD|OLDPWD|SHLVL|COLUMNS|LINES|TERM|TERM_.*|COLORTERM|TTY|GPG_TTY|SSH_.*|WINDOWID|DISPLAY|WAYLAND_DISPLAY"
    r"|XAUTHORITY|DBUS_SESSION_BUS_ADDRESS|XDG_SESSION_.*|TMUX.*|STY|WINDOW|VTE_VERSION|INVOCATION_ID"
    r"|JOURNAL_STREAM|MAKEFLAGS|MFLAGS|MAKELEVEL|PYTEST_CURRENT_TEST)"
)


def acts_at_start(name: str) -> bool:
    return ACTS_AT_START.fullmatch(name) is not None


def lasting(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that identify a kept-warm server: all except those of a single run or of the terminal."""
    return {
        name: env[name]
        for name in sorted(env)
        if not INJECTED.fullmatch(name) and not SESSION.fullmatch(name)
    }


def for_zygote(env: Mapping[str, str]) -> dict[str, str]:
    """The environment a zygote is started with: the rank's, less what differs from rank to rank.

    The mark of the run stays, so that recovery after a crash finds the zygote too.
    """
    return {name: value for name, value in env.items() if name == MARK_RUN or not INJECTED.fullmatch(name)}


def start_key(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What two ranks must have in common to come from one zygote."""
    return tuple(
        (name, env[name]) for name in sorted(env) if acts_at_start(name) and not INJECTED.fullmatch(name)
    )
