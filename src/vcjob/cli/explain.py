"""`vcjob explain`: what a field of a Job means.

It prints what `sdk.authoring.explaining` returns; the texts are defined there, not here. An unknown field is a
UserError with the nearest name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.completing import complete_fields
from vcjob.cli.arguments.options import output_option
from vcjob.cli.output.style import Style

if TYPE_CHECKING:
    from vcjob.sdk import FieldDoc

#: The fields of such a field are described by Kubernetes as well.
KUBERNETES = "A field of Kubernetes"
_WIDTH = 100


@click.command("explain")
@click.argument("path", metavar="[PATH]", default="", shell_complete=complete_fields)
@output_option(("table", "json", "yaml"))
def command(path: str, output: str) -> None:
    """Show the meaning, type and default of a field of a Job, such as `spec.tasks.policies`.

    Without PATH the top of the Job; `spec.plugins.pytorch` shows the arguments of a plugin. The fields of pods,
    claims and metadata are Kubernetes' own; for them, their type and the matching `kubectl explain` command are
    shown.
    """
    from vcjob.sdk.authoring.explaining import explain, explain_fields

    doc = explain(path)
    fields = explain_fields(doc)
    if output == "table":
        sys.stdout.write(_text(doc, fields, Style(sys.stdout)))
        return
    from vcjob.cli.output.objects import write_object

    write_object(
        {**_record(doc), "fields": [{"name": name, **_record(each)} for name, each in fields]}, output
    )


def _record(doc: FieldDoc) -> dict[str, object]:
    return {"path": doc.path, "type": doc.type, "meaning": doc.meaning, "default": doc.default}


def _text(doc: FieldDoc, fields: list[tuple[str, FieldDoc]], style: Style) -> str:
    lines = [f"{style(doc.path, 'bold')}  <{doc.type}>", *_wrapped(_meaning(doc), "  ")]
    is_plugin = doc.path.startswith("spec.plugins.")
    if fields:
        lines += ["", style("Arguments" if is_plugin else "Fields", "bold")]
    of_kubernetes = doc.meaning.startswith(KUBERNETES)
    for name, each in fields:
        meaning = [] if of_kubernetes else _wrapped(_meaning(each), "    ")
        lines += [f"  {style(f'--{name}' if is_plugin else name, 'bold')}  <{each.type}>", *meaning]
    return "\n".join(lines) + "\n"


def _meaning(doc: FieldDoc) -> str:
    return f"{doc.meaning} Default: {doc.default}." if doc.default else doc.meaning


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)
