"""Writes charts/vcjob, the Helm chart, from the manifests of `vcjob install`.

    python scripts/make_chart.py

A test fails where the chart in the repository is not what this writes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from vcjob._version import __version__
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.manifests import controller_objects
from vcjob.cluster.install.settings import IMAGE, Settings
from vcjob.sdk.yaml_text import to_yaml, to_yaml_stream

CHART = Path(__file__).parent.parent / "charts" / "vcjob"
DEFAULTS = Settings()
#: What a user of the chart can choose: the name of the value, the field of Settings, and what it says.
VALUES: dict[str, tuple[str, str]] = {
    "image": ("image", "The controller's image."),
    "imagePullPolicy": ("image_pull_policy", ""),
    "replicas": ("replicas", "One of them leads, all of them answer the API server."),
    "gang": ("gang", "Who places a Job's pods as one group: auto, none, volcano or coscheduling."),
    "volcanoNamespace": (
        "volcano_namespace",
        "Where Volcano's own parts live, to see whether they are alive.",
    ),
    "failurePolicy": (
        "failure_policy",
        "What the API server does with a Job when no replica answers: Ignore (the controller checks it then) or Fail.",
    ),
    "logLevel": ("log_level", ""),
    "cpu": ("cpu", "What a replica asks for, and the most that it may take."),
    "memory": ("memory", ""),
    "memoryLimit": ("memory_limit", ""),
}
_NUMBER = 987654321  # stands for a number until the text is made


def files() -> dict[str, str]:
    """The chart: text by path."""
    found = {
        "Chart.yaml": _chart(),
        "values.yaml": _values(),
        "README.md": _readme(),
        "templates/controller.yaml": _template(controller_objects(_marked())),
    }
    for definition in crds.definitions():
        found[f"crds/{definition['metadata']['name']}.yaml"] = to_yaml(definition)
    return found


def _marked() -> Settings:
    marks: dict[str, Any] = {field: f"@@{value}@@" for value, (field, _) in VALUES.items()}
    marks["replicas"] = _NUMBER
    return Settings(namespace="@@namespace@@", **marks)


def _template(documents: list[dict[str, Any]]) -> str:
    text = "".join(to_yaml_stream(documents))
    text = text.replace(str(_NUMBER), "{{ .Values.replicas }}")
    text = re.sub(r"""['"]?@@namespace@@['"]?""", "{{ .Release.Namespace }}", text)
    text = re.sub(r"""['"]@@(\w+)@@['"]""", r"{{ .Values.\1 | quote }}", text)
    return re.sub(r"@@(\w+)@@", r"{{ .Values.\1 }}", text)


def _chart() -> str:
    return to_yaml(
        {
            "apiVersion": "v2",
            "name": "vcjob",
            "description": "Runs Volcano PyTorch Jobs on any Kubernetes, with or without Volcano",
            "type": "application",
            "version": __version__,
            "appVersion": __version__,
            "kubeVersion": ">=1.30.0-0",
        }
    )


def _values() -> str:
    lines = []
    for value, (field, words) in VALUES.items():
        lines += [f"# {words}"] if words else []
        lines.append(to_yaml({value: getattr(DEFAULTS, field)}).rstrip())
    return "\n".join(lines) + "\n"


def _readme() -> str:
    return f"""# vcjob: the Helm chart

Written by `scripts/make_chart.py` from what `vcjob install` applies; change that, not these files.

    helm install vcjob charts/vcjob --namespace vcjob-system --create-namespace --set image=<registry>/{IMAGE}

Unlike `vcjob install`, Helm does not look whether Volcano's own job controller is alive (the controller does, when it
starts, and ends with the reason), never changes or removes the definitions in `crds/`, and does not label the namespace
for PodSecurity (the pods are fit for `restricted`).
"""


def main() -> int:
    for name, text in files().items():
        target = CHART / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    print(
        f"{len(files())} files in {CHART.relative_to(Path.cwd()) if CHART.is_relative_to(Path.cwd()) else CHART}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
