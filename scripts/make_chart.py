"""Writes charts/vcjob, the Helm chart, from the manifests of `vcjob install`.

    python scripts/make_chart.py

Values that are words or numbers replace marks in the manifests. Values that switch something on or off are derived:
the manifests with and without it are compared, and each difference becomes a condition of the template. A test fails
where the chart in the repository is not what this writes.
"""

from __future__ import annotations

import re
import sys
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from vcjob._version import __version__
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.manifests import controller_objects
from vcjob.cluster.install.settings import IMAGE, METRICS, NAME, OURS, Settings
from vcjob.sdk.yaml_text import to_yaml, to_yaml_stream

CHART = Path(__file__).parent.parent / "charts" / "vcjob"
DEFAULTS = Settings()
#: Values that are words or numbers: the name of the value, the field of Settings, and its comment.
VALUES: dict[str, tuple[str, str]] = {
    "image": ("image", "The controller's image."),
    "imagePullPolicy": ("image_pull_policy", ""),
    "replicas": ("replicas", "Number of replicas. One leads; all serve the webhook."),
    "gang": ("gang", "How a Job's pods are scheduled as one group: auto, none, volcano or coscheduling."),
    "volcanoNamespace": (
        "volcano_namespace",
        "The namespace of Volcano's own components, to see whether they are running.",
    ),
    "failurePolicy": (
        "failure_policy",
        "What the API server does with a Job when no replica answers: Ignore (the controller then checks it) or Fail.",
    ),
    "logLevel": ("log_level", ""),
    "cpu": ("cpu", "Resource requests and the memory limit of a replica."),
    "memory": ("memory", ""),
    "memoryLimit": ("memory_limit", ""),
}
#: Values that do not stand for a single word of a manifest, with their defaults.
OTHER_VALUES = """\
# Serve the admission webhook and have the API server call it for every Job.
webhook: true
# Serve Jobs of these namespaces only, with rights limited to them; empty: all namespaces. They must exist.
watchNamespaces: []
# Let the controller read the last lines of pods that failed, to name the cause on the Job (`get` on `pods/log`).
failureLogs: true
# Run although Volcano's controller manager is running. Its job controller must be switched off.
besideVolcano: false
# Secrets with credentials for the image's registry, such as [{name: registry}].
imagePullSecrets: []
nodeSelector: {}
tolerations: []
affinity: {}
# A ServiceMonitor of the Prometheus operator for the Service vcjob-metrics; `labels` are added to it.
serviceMonitor:
  enabled: false
  labels: {}
# A ConfigMap with the Grafana dashboard of the controller's metrics, for Grafana's dashboard sidecar: `labels` are
# those that the sidecar looks for.
dashboard:
  enabled: false
  labels:
    grafana_dashboard: "1"
# The web UI for many users, behind an authenticating proxy in the same pod (docs/ui.md). Each user has their own
# permissions: the account of the pod may only impersonate users and groups.
ui:
  enabled: false
  # The proxy's container as in a pod's spec (required). It must authenticate every user, remove the two headers from
  # what it receives, and send requests to http://127.0.0.1:<loopbackPort>.
  proxy: {}
  # Volumes that the proxy's container mounts.
  volumes: []
  # The port of the proxy, which the Service vcjob-ui serves.
  port: 4180
  loopbackPort: 8090
  userHeader: X-Remote-User
  groupHeader: X-Remote-Group
  # A Secret whose key `secret` the proxy must send in the header X-Vcjob-Proxy-Secret; empty: none.
  secretName: ""
  # Impersonate only these; empty: every user, every group.
  users: []
  groups: []
  # Show only this namespace; empty: all that the user may list.
  namespace: ""
  readOnly: false
"""
#: Parts that `vcjob install` does not have. They are written by hand, in the chart.
HAND_WRITTEN = ("dashboards/vcjob.json", "templates/dashboard.yaml", "templates/ui.yaml")
_POD_FIELDS = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity")
_NUMBER = 987654321  # stands for a number until the text is made
_ITEM = "@@item@@"  # stands for one of watchNamespaces


class Variant(NamedTuple):
    """The manifests with one setting changed, and the template's condition for it."""

    settings: dict[str, Any]
    when: str
    otherwise: str


_NAMESPACES = "$.Values.watchNamespaces"
VARIANTS = (
    Variant({"webhook": False}, "not $.Values.webhook", "$.Values.webhook"),
    Variant({"namespaces": (_ITEM,)}, _NAMESPACES, f"not {_NAMESPACES}"),
    Variant({"failure_logs": False}, "not $.Values.failureLogs", "$.Values.failureLogs"),
    Variant({"beside_volcano": True}, "$.Values.besideVolcano", "not $.Values.besideVolcano"),
)
Key = tuple[str, str, str]


def files() -> dict[str, str]:
    """The chart: text by path."""
    found = {
        "Chart.yaml": _chart(),
        "values.yaml": _values(),
        "README.md": _readme(),
        "templates/controller.yaml": _controller_template(),
        "templates/servicemonitor.yaml": _service_monitor(),
    }
    found |= {name: (CHART / name).read_text() for name in HAND_WRITTEN}
    for definition in crds.definitions():
        found[f"crds/{definition['metadata']['name']}.yaml"] = to_yaml(definition)
    return found


def _controller_template() -> str:
    base = _documents({})
    variants = [(variant, _documents(variant.settings)) for variant in VARIANTS]
    chunks: list[str] = []
    for key in _in_order(base, *(documents for _, documents in variants)):
        lines = base.get(key)
        if lines is None:
            chunks += _only_in_variant(key, variants)
            continue
        conditions = [variant.otherwise for variant, documents in variants if key not in documents]
        changes = [(variant, documents[key]) for variant, documents in variants if key in documents]
        chunks += _wrapped(["---", *_merged(lines, changes)], [f"if {each}" for each in conditions])
    return _with_pod_fields(_with_values("\n".join(chunks) + "\n"))


def _documents(changes: dict[str, Any]) -> dict[Key, list[str]]:
    """The manifests with marks for values, as lines of YAML by kind, name and namespace."""
    marks: dict[str, Any] = {field: f"@@{value}@@" for value, (field, _) in VALUES.items()}
    settings = Settings(namespace="@@namespace@@", **{**marks, "replicas": _NUMBER, **changes})
    found: dict[Key, list[str]] = {}
    for document in controller_objects(settings):
        metadata = document["metadata"]
        text = "".join(to_yaml_stream([document])).removeprefix("---\n")
        found[document["kind"], metadata["name"], metadata.get("namespace", "")] = text.splitlines()
    return found


def _in_order(*groups: dict[Key, list[str]]) -> list[Key]:
    """All keys; those that only later groups have come after their predecessor there."""
    order: list[Key] = []
    for group in groups:
        place = 0
        for key in group:
            if key in order:
                place = order.index(key) + 1
            else:
                order.insert(place, key)
                place += 1
    return order


def _only_in_variant(key: Key, variants: list[tuple[Variant, dict[Key, list[str]]]]) -> list[str]:
    (variant, lines), *others = [(variant, found[key]) for variant, found in variants if key in found]
    assert not others
    repeated = any(_ITEM in line for line in lines)
    return _wrapped(["---", *lines], [f"range {variant.when}" if repeated else f"if {variant.when}"])


def _merged(base: list[str], changes: list[tuple[Variant, list[str]]]) -> list[str]:
    """The lines of one document, with every difference to its variants as a condition."""
    edits: dict[int, list[tuple[int, list[str], Variant]]] = {}
    for variant, lines in changes:
        for kind, start, end, new_start, new_end in SequenceMatcher(None, base, lines, False).get_opcodes():
            if kind == "insert":
                by = _slide(lines, new_start, new_end)
                edits.setdefault(start - by, []).append(
                    (end - by, lines[new_start - by : new_end - by], variant)
                )
            elif kind == "delete":
                by = _slide(base, start, end)
                edits.setdefault(start - by, []).append((end - by, [], variant))
            elif kind == "replace":
                edits.setdefault(start, []).append((end, lines[new_start:new_end], variant))
    result: list[str] = []
    place = 0
    while place <= len(base):
        following = place
        for end, inserted, variant in edits.get(place, ()):
            if inserted:
                result += _wrapped(_repeated(inserted), [f"if {variant.when}"])
            if end > place:
                assert following == place, "two settings remove the same lines"
                following = end
                assert not any(place < other < end for other in edits), "two settings remove the same lines"
                result += _wrapped(base[place:end], [f"if {variant.otherwise}"])
        if following == place:
            result += base[place : place + 1]
            following += 1
        place = following
    return result


def _slide(lines: list[str], start: int, end: int) -> int:
    """By how many lines a difference has to move up (or down, if negative) to be a whole item or field."""
    for step in (1, -1):
        by = 0
        while start - by >= 0 and end - by <= len(lines):
            if _is_block(lines[start - by : end - by]):
                return by
            leaving, entering = (end - by - 1, start - by - 1) if step > 0 else (start - by, end - by)
            if not 0 <= entering < len(lines) or lines[leaving] != lines[entering]:
                break
            by += step
    return 0


def _is_block(lines: list[str]) -> bool:
    first, *rest = [(len(line) - len(line.lstrip()), line.lstrip().startswith("- ")) for line in lines]
    return all(indent > first[0] or (indent == first[0] and is_item >= first[1]) for indent, is_item in rest)


def _repeated(lines: list[str]) -> list[str]:
    """Lines with the mark of an item are repeated for each item."""
    result: list[str] = []
    for line in lines:
        result += _wrapped([line], [f"range {_NAMESPACES}"] if _ITEM in line else [])
    return result


def _wrapped(lines: list[str], actions: list[str]) -> list[str]:
    return [*(f"{{{{- {each} }}}}" for each in actions), *lines, *("{{- end }}" for _ in actions)]


def _with_values(text: str) -> str:
    text = text.replace(str(_NUMBER), "{{ $.Values.replicas }}")
    text = re.sub(r"""['"]?@@namespace@@['"]?""", "{{ $.Release.Namespace }}", text)
    text = re.sub(rf"""['"]{_ITEM}['"]""", "{{ . | quote }}", text).replace(_ITEM, "{{ . }}")
    text = re.sub(r"""['"]@@(\w+)@@['"]""", r"{{ $.Values.\1 | quote }}", text)
    return re.sub(r"@@(\w+)@@", r"{{ $.Values.\1 }}", text)


def _with_pod_fields(text: str) -> str:
    anchor = f"      serviceAccountName: {NAME}\n"
    assert text.count(anchor) == 1
    fields = "".join(
        f"      {{{{- with $.Values.{name} }}}}\n      {name}:\n"
        "        {{- toYaml . | nindent 8 }}\n      {{- end }}\n"
        for name in _POD_FIELDS
    )
    return text.replace(anchor, anchor + fields)


def _service_monitor() -> str:
    labels = "".join(f"    {key}: {value}\n" for key, value in OURS.items())
    return f"""{{{{- if $.Values.serviceMonitor.enabled }}}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {NAME}
  namespace: {{{{ $.Release.Namespace }}}}
  labels:
{labels}    {{{{- with $.Values.serviceMonitor.labels }}}}
    {{{{- toYaml . | nindent 4 }}}}
    {{{{- end }}}}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {METRICS}
  endpoints:
  - port: metrics
{{{{- end }}}}
"""


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
    for value, (field, comment) in VALUES.items():
        lines += [f"# {comment}"] if comment else []
        lines.append(to_yaml({value: getattr(DEFAULTS, field)}).rstrip())
    return "\n".join(lines) + "\n" + OTHER_VALUES


def _readme() -> str:
    return f"""# vcjob: the Helm chart

`scripts/make_chart.py` writes it from what `vcjob install` applies; change that, not these files. Only these
files are written by hand: {", ".join(f"`{name}`" for name in HAND_WRITTEN)}.

    helm install vcjob charts/vcjob --namespace vcjob-system --create-namespace --set image=<registry>/{IMAGE}

Differences from `vcjob install`:

- Helm does not check whether Volcano's own job controller is running. The controller does when it starts, and exits
  with the reason.
- Helm never changes or removes the definitions in `crds/`. Before `helm upgrade`, apply those of the new chart, unless
  Volcano's own are installed: `kubectl apply --server-side --force-conflicts -f charts/vcjob/crds`. After `helm uninstall`, `vcjob uninstall` removes them.
- Helm does not label the namespace for Pod Security. The pods fulfil the level `restricted`.
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
