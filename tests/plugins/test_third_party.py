"""Plugins of third parties are never the cause of a traceback: what is wrong with one is a problem of the Job."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admission.cases import admitted, errors, job, refused, task
from tests.plugins.packages import Packages, job_with, on_path
from vcjob.plugins import registry

BROKEN = """
from vcjob.plugins.base import Plugin

class Whole(Plugin):
    name = "whole"
    order = 15
    def parse(self, arguments):
        return None, []
    def shape(self, draft, options):
        draft.inject_env("WHOLE", draft.index + 1)

class Parse(Whole):
    def parse(self, arguments):
        raise ValueError("bad day")

class Opens(Whole):
    def opens(self, options):
        raise ValueError("bad day")

class Check(Whole):
    def check(self, job, options):
        yield from ()
        raise ValueError("bad day")

class Shape(Whole):
    def shape(self, draft, options):
        raise ValueError("bad day")

class Objects(Whole):
    def objects(self, job, options):
        raise ValueError("bad day")

class PerPod(Whole):
    def shape_pod(self, pod, task, index, options):
        pod["spec"]["nodeName"] = f"node-{index}"

class PerPodBad(Whole):
    def shape_pod(self, pod, task, index, options):
        raise ValueError("bad day")

class OpensOthers(Whole):
    def opens(self, options):
        return {"env": ["--attempt"], "circle": []}

class Circle(Whole):
    def opens(self, options):
        return {"opens-others": [], "circle": []}

class ParseOther(Whole):
    def parse(self, arguments):
        return None, ["a text"]

class CheckOther(Whole):
    def check(self, job, options):
        return [7]

class OpensNumber(Whole):
    def opens(self, options):
        return {"svc": 7}

class OpensText(Whole):
    def opens(self, options):
        return {"svc": "--inject-hosts-env=false"}

class OpensNames(Whole):
    def opens(self, options):
        return {7: []}

class OpensService(Whole):
    def opens(self, options):
        return {"svc": []}

class OpensOpener(Whole):
    def opens(self, options):
        return {"opens-service": []}

class Init(Whole):
    def __init__(self):
        raise ValueError("bad day")

no_plugin = 7
"""


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Packages]:
    """Packages whose plugins are broken in every possible way."""
    target = tmp_path
    (target / "broken_plugins.py").write_text(BROKEN)
    (target / "broken_syntax.py").write_text("def (:\n")
    offers = {
        "whole": "broken_plugins:Whole",
        "parse": "broken_plugins:Parse",
        "opens": "broken_plugins:Opens",
        "check": "broken_plugins:Check",
        "shape": "broken_plugins:Shape",
        "objects": "broken_plugins:Objects",
        "per-pod": "broken_plugins:PerPod",
        "per-pod-bad": "broken_plugins:PerPodBad",
        "opens-others": "broken_plugins:OpensOthers",
        "circle": "broken_plugins:Circle",
        "parse-other": "broken_plugins:ParseOther",
        "check-other": "broken_plugins:CheckOther",
        "opens-number": "broken_plugins:OpensNumber",
        "opens-text": "broken_plugins:OpensText",
        "opens-names": "broken_plugins:OpensNames",
        "opens-service": "broken_plugins:OpensService",
        "opens-opener": "broken_plugins:OpensOpener",
        "init": "broken_plugins:Init",
        "number": "broken_plugins:no_plugin",
        "absent": "broken_plugins:Nothing",
        "missing": "no_such_module:Plugin",
        "syntax": "broken_syntax:Plugin",
        "twice": "broken_plugins:Whole",
        "ssh": "broken_plugins:Whole",
        "svc": "broken_plugins:Whole",
    }
    write_package(target, "broken", offers)
    write_package(target, "second", {"twice": "broken_plugins:Parse"})
    with on_path(target) as packages:
        yield packages
    for module in ("broken_plugins", "broken_syntax"):
        sys.modules.pop(module, None)


def write_package(target: Path, name: str, offers: dict[str, str]) -> None:
    info = target / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {value}\n" for key, value in offers.items()]
    (info / "entry_points.txt").write_text("[vcjob.plugins]\n" + "".join(lines))


FAULT = "this is an error in the plugin: fix it, or remove it from spec.plugins"


def fix(name: str) -> str:
    return f"fix or remove the package that provides `{name}`"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("parse", "the plugin `parse` failed while parsing its arguments: ValueError: bad day", FAULT),
        (
            "opens",
            "the plugin `opens` failed while listing the plugins that it requires: ValueError: bad day",
            FAULT,
        ),
        ("check", "the plugin `check` failed while checking the Job: ValueError: bad day", FAULT),
        ("shape", "the plugin `shape` failed while shaping the pods of task `a`: ValueError: bad day", FAULT),
        (
            "parse-other",
            "the plugin `parse-other` failed while parsing its arguments: TypeError: expected a Problem, got str",
            FAULT,
        ),
        (
            "check-other",
            "the plugin `check-other` failed while checking the Job: TypeError: expected a Problem, got int",
            FAULT,
        ),
        *(
            (
                f"opens-{what}",
                f"the plugin `opens-{what}` failed while listing the plugins that it requires: "
                f"TypeError: expected lists of texts by the name of the plugin, got {got}",
                FAULT,
            )
            for what, got in (
                ("number", "{'svc': 7}"),
                ("text", "{'svc': '--inject-hosts-env=false'}"),
                ("names", "{7: []}"),
            )
        ),
        ("init", "the plugin `init` cannot be loaded: ValueError: bad day", fix("init")),
        (
            "number",
            "the plugin `number` is not a vcjob plugin: broken_plugins:no_plugin is not a vcjob.plugins.base.Plugin",
            fix("number"),
        ),
        (
            "absent",
            "the plugin `absent` cannot be loaded: AttributeError: module 'broken_plugins' has no attribute 'Nothing'",
            fix("absent"),
        ),
        (
            "missing",
            "the plugin `missing` cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
            fix("missing"),
        ),
        ("twice", "several packages provide the plugin `twice`: broken, second", fix("twice")),
    ],
)
def test_a_broken_plugin_is_a_problem_of_the_job(
    broken: Packages, name: str, message: str, hint: str
) -> None:
    assert broken.ask({name: []})["problems"] == [["error", f"spec.plugins.{name}", message, hint]]
    (problem,) = errors(job(task("a"), plugins={name: []}))
    assert (problem.path, problem.message) == (f"spec.plugins.{name}", message)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", ["svc", "opens-service", "opens-opener"])
def test_a_job_with_a_service_needs_a_name_that_a_service_can_have(name: str) -> None:
    refused(job(name="1-job", plugins={name: []}), "metadata.name", "`1-job`")
    admitted(job(name="1-job", plugins={"whole": []}))


def test_a_plugin_with_a_syntax_error_is_a_problem_of_the_job(broken: Packages) -> None:
    ((severity, path, message, hint),) = broken.ask({"syntax": []})["problems"]
    assert (severity, path, hint) == ("error", "spec.plugins.syntax", fix("syntax"))
    assert message.startswith("the plugin `syntax` cannot be loaded: SyntaxError: ")


@pytest.mark.parametrize(
    ("name", "doing"), [("objects", "creating its objects"), ("per-pod-bad", "shaping pod 0 of task `a`")]
)
def test_a_later_failure_is_a_user_error(broken: Packages, name: str, doing: str) -> None:
    assert broken.ask({name: []})["refused"] == [
        f"the plugin `{name}` failed while {doing}: ValueError: bad day",
        FAULT,
    ]


def test_a_plugin_may_shape_each_pod(broken: Packages) -> None:
    said = broken.ask({"per-pod": []})
    assert [pod["spec"]["nodeName"] for pod in said["pods"]] == ["node-0", "node-1"]
    env = [{"name": "WHOLE", "value": "2"}]
    assert said["pods"][1]["spec"]["containers"] == [{"name": "main", "image": "i", "env": env}]


def test_checking_a_job_leaves_it_as_it_was() -> None:
    job = job_with({"svc": [], "env": []}, initContainers=[{"name": "pre", "image": "i"}])
    before = json.dumps(job.doc)
    assert list(registry.check_plugins(job)) == []
    assert json.dumps(job.doc) == before


def test_plugins_that_open_each_other_end(broken: Packages) -> None:
    said = broken.ask({"opens-others": []})
    assert said["problems"] == []
    env = said["pods"][0]["spec"]["containers"][0]["env"]
    assert [entry["name"] for entry in env] == ["WHOLE", "VK_TASK_INDEX", "VC_TASK_INDEX", "VCJOB_ATTEMPT"]


def test_a_name_that_we_do_not_serve_can_be_served_by_others_and_ours_cannot_be_taken(
    broken: Packages,
) -> None:
    said = broken.ask({"ssh": [], "svc": []})
    assert said["problems"] == []
    assert said["objects"] == ["ConfigMap", "Service", "NetworkPolicy", "PodGroup"]
    names = [entry["name"] for entry in said["pods"][0]["spec"]["containers"][0]["env"]]
    assert names == ["WHOLE", "VC_A_HOSTS", "VC_A_NUM"]
