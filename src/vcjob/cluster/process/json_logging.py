"""Log lines as JSON objects, one per line: what a cluster's log collector can search."""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

import msgspec

#: Given by `extra={...}`: which Job a line is about, and what a user can do.
_OWN = ("job", "uid", "hint")
_encode = msgspec.json.Encoder().encode


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name in _OWN if (value := getattr(record, name, None)) is not None})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return _encode(line).decode()


def set_up_logging(level: str, *, as_json: bool = True, stream: TextIO | None = None) -> None:
    """Have everything that is logged go to `stream` (standard error), and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Nobody prints these, and to find them out costs more than the line itself.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
