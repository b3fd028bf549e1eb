"""Log lines as JSON objects, one per line, for a cluster's log collector.

`process.main` sets it up before anything else; modules of the controller use `logging` as usual and pass `job`, `uid`
and `hint` as `extra`. With `--log-format text` the lines are plain text.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

import msgspec

#: Fields given with `extra={...}`: the Job that a line is about, and what to do about an error.
_EXTRA_FIELDS = ("job", "uid", "hint")
_encode = msgspec.json.Encoder().encode


class JsonFormatter(logging.Formatter):
    """One record as one JSON object: time, level, logger, message, and `error` with a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(
            {name: value for name in _EXTRA_FIELDS if (value := getattr(record, name, None)) is not None}
        )
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return _encode(line).decode()


def set_up_logging(level: str, *, as_json: bool = True, stream: TextIO | None = None) -> None:
    """Write all log lines to `stream` (by default standard error) and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # These are not printed, and determining them costs more than the line itself.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
