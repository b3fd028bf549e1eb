"""The result of a verb on standard output: Kubernetes objects as JSON or YAML, or a line of text.

Verbs that act on a job end with `write_result`; those that print documents use the others. Writing to a closed pipe
is handled by `cli.main`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vcjob.sdk.handle import Handle


def write_object(value: dict[str, Any], output: str) -> None:
    if output == "json":
        from vcjob.cli.output.json_text import to_json

        sys.stdout.write(to_json(value))
    else:
        from vcjob.sdk import to_yaml

        sys.stdout.write(to_yaml(value))


def write_result(job: Handle, text: str, output: str) -> None:
    """What a verb has done: a line of text, or the Job object with `-o json` and `-o yaml`."""
    if output == "table":
        sys.stdout.write(f"{text}\n")
    else:
        write_object(job.to_dict(), output)


def write_objects(values: list[dict[str, Any]], output: str) -> None:
    """One object as it is, several as a List."""
    write_object(values[0] if len(values) == 1 else as_list(values), output)


def as_list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
