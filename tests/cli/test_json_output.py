"""What verbs print with `-o json` has the documented form, and no field that the reference does not list."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema_rs
import pytest

import vcjob as sdk
from scripts.generate_reference import SCHEMAS, output_schemas_text
from scripts.output_schemas import OUTPUTS, schemas
from tests.cli.conftest import GUIDE, Vcjob
from vcjob.cli.main import VERBS, cli

SECONDS = 60.0


def closed(node: Any) -> Any:
    """The schema, with every field that it does not list forbidden."""
    if isinstance(node, list):
        return [closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: closed(value) for key, value in node.items()}
    return {**found, "additionalProperties": False} if "properties" in node else found


def check(key: str, document: Any) -> None:
    errors = [error.message for error in jsonschema_rs.iter_errors(closed(schemas()[key]), document)]
    assert errors == [], json.dumps(document)[:2000]


@pytest.fixture
def failed() -> sdk.Handle:
    program = "import time; print('step 1/2', flush=True); raise ValueError('bad')"
    handle = sdk.run(sdk.pytorch_job("bad", command=["python", "-c", program], workers=1))
    handle.wait(SECONDS)
    return handle


@pytest.fixture
def running() -> Iterator[sdk.Handle]:
    handle = sdk.run(sdk.pytorch_job("on", command=["sleep", "600"], workers=0))
    handle.wait(SECONDS, until="Running")
    yield handle
    handle.delete()


def test_a_job_that_failed(vcjob: Vcjob, failed: sdk.Handle) -> None:
    job = vcjob("status", "bad", "-o", "json").json
    check("job", job)
    details = {key: job["status"][key] for key in ("pods", "failure")}
    check("status", details)
    assert [pod["rank"] for pod in details["pods"]] == [0, 1]
    assert details["failure"]["cause"] == "Exception"
    check("why", vcjob("why", "bad", "-o", "json").json)
    check("timeline", vcjob("timeline", "bad", "-o", "json").json)
    for verb in ("list", "events"):
        words = ("events", "bad") if verb == "events" else ("list",)
        check("list", vcjob(*words, "-o", "json").json)
    lines = vcjob("logs", "bad", "-o", "json").out.splitlines()
    assert any('"time":' in line for line in lines)
    for line in lines:
        check("logs", json.loads(line))
    check("job", vcjob("wait", "bad", "-o", "json").json)
    check("job", vcjob("delete", "bad", "-o", "json").json)


def test_a_job_that_runs(vcjob: Vcjob, running: sdk.Handle) -> None:
    check("stacks", vcjob("stacks", "on", "-o", "json").json)
    check("top", vcjob("top", "on", "--interval", "0.1", "-o", "json").json)
    check("job", vcjob("suspend", "on", "-o", "json").json)
    running.wait(SECONDS, until="Aborted")
    check("job", vcjob("resume", "on", "-o", "json").json)
    running.wait(SECONDS, until="Running")
    check("job", vcjob("restart", "on", "-o", "json").json)
    running.wait(SECONDS, until="Running")
    check("job", vcjob("complete", "on", "-o", "json").json)


def test_a_job_that_is_stopped(vcjob: Vcjob, running: sdk.Handle) -> None:
    check("job", vcjob("stop", "on", "--now", "-o", "json").json)


def test_verbs_without_a_job(vcjob: Vcjob, bad: Path) -> None:
    check("validate", vcjob("validate", bad, "-o", "json").json)
    check("explain", vcjob("explain", "spec.tasks", "-o", "json").json)
    check("doctor", vcjob("doctor", "-o", "json").json)
    check("warm", vcjob("warm", "status", "-o", "json").json)
    check("job", vcjob("run", GUIDE, "--dry-run", "-o", "json").json)
    check("list", vcjob("render", GUIDE, "-o", "json").json)
    check("job", vcjob("render", GUIDE, "--defaulted", "-o", "json").json)
    check("list", vcjob("install", "-o", "json").json)
    check("error", json.loads(vcjob("render", bad, "-o", "json").err))
    check("error", json.loads(vcjob("status", "nothing", "-o", "json").err))


def test_converted_jobs(vcjob: Vcjob, tmp_path: Path) -> None:
    one = Path("examples/09-from-kubeflow/pytorchjob.yaml").read_text(encoding="utf-8")
    two = tmp_path / "two.yaml"
    two.write_text(f"{one}\n---\n{one.replace('name: from-kubeflow', 'name: other')}")
    check("job", vcjob("convert", "examples/09-from-kubeflow/pytorchjob.yaml", "-o", "json").json)
    converted = vcjob("convert", two, "-o", "json").json
    check("list", converted)
    for item in converted["items"]:
        check("job", item)


def test_warm_servers(vcjob: Vcjob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcjob.local.warm.spawn.DEFAULT_IMPORTS", ("json",))
    check("warm", vcjob("warm", "start", "--python", sys.executable, "-o", "json").json)
    for verb in ("status", "stop"):
        answer = vcjob("warm", verb, "-o", "json").json
        check("warm", answer)
        assert [server["modules"] for server in answer["servers"]] == [["json"]]


def test_every_verb_with_json_output_is_listed() -> None:
    listed = {
        word.strip().split()[0] for output in OUTPUTS if output.verbs for word in output.verbs.split(",")
    }
    found = set()
    for verb in VERBS:
        command = cli.get_command(cli.make_context("vcjob", [], resilient_parsing=True), verb)
        assert command is not None
        inner = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for option in (option for each in inner for option in each.params if option.name == "output"):
            if isinstance(option.type, click.Choice) and "json" in option.type.choices:
                found.add(verb)
    assert found == listed


def test_a_schema_describes_a_type_in_one_paragraph() -> None:
    definitions = [each for schema in schemas().values() for each in schema["$defs"].values()]
    described = [each["description"] for each in definitions if "description" in each]
    assert described != [] and not any("\n\n" in text for text in described)


def test_the_file_of_schemas_is_up_to_date() -> None:
    assert SCHEMAS.read_text(encoding="utf-8") == output_schemas_text(), "run `make reference`"
