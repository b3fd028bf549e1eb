"""Plugins of third parties: found by entry point, and never the cause of a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.admission.cases import admitted, errors, job, refused, task
from vcjob.errors import UserError
from vcjob.plan.plan import Plan
from vcjob.plugins import registry
from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.guard import guarded
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Problem, has_errors

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin-package"


def job_with(plugins: dict[str, list[str]], **pod: Any) -> Job:
    spec = {"containers": [{"name": "main", "image": "i"}], **pod}
    tasks = [{"name": "a", "replicas": 2, "template": {"spec": spec}}]
    return Job({"metadata": {"name": "job"}, "spec": {"tasks": tasks, "plugins": plugins}})


class Packages:
    """The packages that are installed during a test."""

    def ask(self, plugins: dict[str, list[str]], **pod: Any) -> dict[str, Any]:
        """The problems of a Job of one task `a` with these plugins, and its objects."""
        job = job_with(plugins, **pod)
        found = list(registry.check_plugins(job))
        said: dict[str, Any] = {"problems": [[p.severity, p.path, p.message, p.hint] for p in found]}
        if not has_errors(found):
            try:
                plan = Plan(job)
                said["objects"] = [obj["kind"] for obj in plan.objects()]
                said["pods"] = list(plan.pods())
            except UserError as refused:
                said["refused"] = [refused.message, refused.hint]
        return said


@contextmanager
def on_path(folder: Path) -> Iterator[Packages]:
    registry._installed.cache_clear()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            yield Packages()
    finally:
        registry._installed.cache_clear()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package, installed as a user would, without a network."""
    target = tmp_path_factory.mktemp("packages")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(target), str(EXAMPLE)], check=True
    )
    return target


@pytest.fixture
def installed(target: Path) -> Iterator[Packages]:
    with on_path(target) as packages:
        yield packages


@pytest.mark.slow
def test_the_example_package_is_found_and_shapes_the_pods(installed: Packages) -> None:
    assert registry.names() == ["env", "pytorch", "shm", "svc"]
    said = installed.ask({"shm": ["--size=8Gi"]})
    assert said["problems"] == []
    assert [pod["spec"] for pod in said["pods"]] == [
        {
            "containers": [
                {"name": "main", "image": "i", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
            **{key: pod["spec"][key] for key in ("schedulerName",) if key in pod["spec"]},
        }
        for pod in said["pods"]
    ]


@pytest.mark.slow
def test_the_command_renders_the_examples_job(target: Path) -> None:
    sources = Path(registry.__file__).parents[2]
    call = "import sys; from vcjob.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", call, "render", str(EXAMPLE / "job.yaml"), "-o", "json"],
        env={"PYTHONPATH": f"{target}:{sources}", "PATH": "/usr/bin:/bin", "HOME": str(target)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"sizeLimit"' in done.stdout and '"8Gi"' in done.stdout


@pytest.mark.slow
def test_it_runs_behind_our_own(installed: Packages) -> None:
    said = installed.ask({"shm": [], "svc": []})
    assert [mount["name"] for mount in said["pods"][0]["spec"]["containers"][0]["volumeMounts"]] == [
        "job-svc",
        "shm",
    ]


@pytest.mark.slow
def test_its_problems_have_the_path_of_the_item(installed: Packages) -> None:
    said = installed.ask({"shm": ["--size=8GB", "--sise=1Gi"]}, volumes=[{"name": "shm", "emptyDir": {}}])
    assert said["problems"] == [
        ["error", "spec.plugins.shm[1]", "there is no argument `--sise`", "did you mean --size?"],
        ["error", "spec.plugins.shm[0]", "`8GB` is not a size", "write --size=8Gi"],
        [
            "error",
            "spec.tasks[0].template.spec.volumes[0].name",
            "the shm plugin uses the volume name `shm`",
            "rename this volume",
        ],
    ]


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


class Seen(Plugin[str]):
    """Records every call with its arguments."""

    name = "seen"
    order = 7

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def parse(self, arguments: Sequence[str]) -> tuple[str, list[Problem]]:
        self.calls.append(("parse", arguments))
        return "options", []

    def opens(self, options: str) -> dict[str, Sequence[str]]:
        self.calls.append(("opens", options))
        return {}

    def check(self, job: Job, options: str) -> list[Problem]:
        self.calls.append(("check", job, options))
        return []

    def shape(self, draft: PodDraft, options: str) -> None:
        self.calls.append(("shape", draft.task, draft.spec, options))

    def objects(self, job: Job, options: str) -> list[dict[str, Any]]:
        self.calls.append(("objects", job, options))
        return []


class SeenPerPod(Seen):
    def shape_pod(self, pod: dict[str, Any], task: Task, index: int, options: str) -> None:
        self.calls.append(("shape_pod", pod, task, index, options))


def test_a_guarded_plugin_is_given_all_that_a_plugin_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SeenPerPod()
    plugin = guarded(seen, "other-name")
    assert (plugin.name, plugin.order) == ("other-name", 7)
    monkeypatch.setattr(registry, "_installed", lambda: {"other-name": plugin})
    job = job_with({"other-name": ["--x"]})
    task, spec = job.tasks[0], job.tasks[0].pod_spec
    list(registry.check_plugins(job))
    assert seen.calls == [
        ("parse", ("--x",)),
        ("opens", "options"),
        ("check", job, "options"),
        ("shape", task, spec, "options"),
    ]
    seen.calls.clear()
    plugin.objects(job, "options")
    plugin.shape_pod({"spec": {}}, task, 3, "options")
    assert seen.calls == [("objects", job, "options"), ("shape_pod", {"spec": {}}, task, 3, "options")]


def test_only_a_plugin_that_shapes_each_pod_is_asked_for_each() -> None:
    assert type(guarded(Seen(), "a")).shape_pod is Plugin.shape_pod
    assert type(guarded(SeenPerPod(), "a")).shape_pod is not Plugin.shape_pod


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
