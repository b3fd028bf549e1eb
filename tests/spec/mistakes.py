"""Common mistakes as texts; `messages.txt` in this folder has the messages that they get.

python -m tests.spec.mistakes    writes messages.txt again: read the difference before you commit it
"""

from __future__ import annotations

from pathlib import Path

from vcjob.admission.review import admit
from vcjob.errors import SourceError
from vcjob.spec.bundle import load_text
from vcjob.spec.problem import Problem
from vcjob.spec.source import MAX_BYTES, decode

GOLDEN = Path(__file__).with_name("messages.txt")

HEAD = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n"
BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 6)
)


def tasks(text: str) -> str:
    return f"{HEAD}spec:\n  tasks:\n{text}"


def container(text: str) -> str:
    return tasks(
        f"  - template:\n      spec:\n        restartPolicy: Never\n        containers:\n        - name: c\n          image: i\n{text}"
    )


GOOD = "  - {name: a, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n"

BYTES = {
    "a binary file": b"\x7fELF\x00\x01",
    "UTF-16 text": "kind: Job".encode("utf-16"),
    "Latin-1 text": b"a: 1\nb: caf\xe9\nc: 2\n",
    "50 MB of nonsense": b"x" * (MAX_BYTES + 1),
}

TEXTS = {
    "an empty file": "",
    "a comment only": "# nothing\n",
    "a list": "- a\n- b\n",
    "a word": "hello\n",
    "no kind": "a: 1\n",
    "a misspelt kind": "kind: job\n",
    "another kind": "apiVersion: v1\nkind: Pod\n",
    "a kind of Kubeflow that cannot be converted": "apiVersion: kubeflow.org/v1\nkind: TFJob\n",
    "a kind that is no text": "kind: [Job]\n",
    "Kubernetes' own Job": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: {}}}\n",
    "a wrong version": HEAD.replace("v1alpha1", "v1") + "spec: {tasks: []}\n",
    "nothing but a kind": "kind: Job\n",
    "a second Job of one name": tasks(GOOD) + "---\n" + tasks(GOOD),
    "a ConfigMap without a name": tasks(GOOD) + "---\napiVersion: v1\nkind: ConfigMap\ndata: {a: 1}\n",
    "a Secret of another version": tasks(GOOD) + "---\napiVersion: v2\nkind: Secret\nmetadata: {name: s}\n",
    "data that is not base64": tasks(GOOD)
    + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  a: not base64!\n  b: YQ\n  c: |\n    YWJj\n    ZGVm\n  d:\n  e: 1\n"
    + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nbinaryData: {x: é, y: YQ==}\n",
    "two ConfigMaps of one name": tasks(GOOD) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n" * 2,
    "an unclosed list": "kind: Job\nspec: [1, 2\n",
    "an unclosed mapping": "kind: Job\nspec: {a: 1\n",
    "an unclosed quote": "kind: 'Job\n",
    "a colon in a value": "kind: Job: x\n",
    "a tab": "kind:\n\tJob\n",
    "an at sign": "kind: @Job\n",
    "a wrong indentation": "kind: Job\nspec:\n    a: 1\n  b: 2\n",
    "a list item among keys": "- a\nb: 1\n",
    "a key without a colon": "kind: Job\nspec\nmetadata: {}\n",
    "a directive": "%FOO\nkind: Job\n",
    "an unknown tag handle": "kind: !x!y Job\n",
    "a control character": "kind: Job\nspec: \x07\n",
    "a lone surrogate": "kind: Job\nspec: \ud800\n",
    "a duplicate key": tasks(GOOD) + "kind: Job\n",
    "too many brackets": "[" * 30_000,
    "an alias bomb": BOMB,
    "an alias in its own anchor": "kind: &a [*a]\n",
    "an alias without an anchor": "kind: *a\n",
    "a merge of no mapping": "kind: Job\nspec: {<<: [1, {a: 1}]}\n",
    "a Python tag": "kind: !!python/object:os.system Job\n",
    "a tag of one's own": "kind: !job Job\n",
    "a wrong tag": HEAD + "spec: {minAvailable: !!int x, tasks: []}\n",
    "no number": HEAD + "spec: {minAvailable: .nan, maxRetry: 1e99, tasks: []}\n",
    "strange keys": "kind: Pod\n[a]: 1\n~: 2\n",
    "an unknown field": container("          imge: x\n"),
    "an unknown field with a long name": container(f"          {'x' * 100}: x\n"),
    "a field that belongs further out": container("          restartPolcy: x\n          nodeSelector: {}\n"),
    "a field that belongs further in": tasks("  - template:\n      containers: []\n"),
    "a field that belongs to the top": HEAD + "spec: {metadata: {}, tasks: []}\n",
    "few known fields": HEAD + "spec: {networkTopology: {zzz: 1}, tasks: []}\n",
    "a missing name": tasks("  - template: {spec: {containers: [{image: i}]}}\n"),
    "quoted numbers": tasks("  - replicas: '2'\n    maxRetry: -1\n") + "  suspend: 'false'\n  minAvailable: '-1'\n",
    "words for numbers": tasks("  - replicas: two\n") + "  suspend: maybe\n  maxRetry: '٣'\n",
    "numbers for text": container("          env: [{name: A, value: 1}, {name: B, value: yes}, {name: C, value: 1.5}]\n"),
    "lists and mappings exchanged": HEAD + "spec: {tasks: {a: 1}, plugins: [pytorch], policies: [x, null], queue: [a]}\n",
    "bad words": container("          imagePullPolicy: always\n          terminationMessagePolicy: 'No\n\n            where'\n"),
    "bad numbers": container("          ports: [{containerPort: 0}, {containerPort: 99999}]\n"),
    "bad ports of probes": container(
        "          livenessProbe: {tcpSocket: {port: 70000}}\n"
        "          readinessProbe: {httpGet: {port: Web Port}}\n"
        "          startupProbe: {grpc: {port: 0}}\n"
        "          lifecycle: {preStop: {httpGet: {port: null}}, postStart: {httpGet: {port: '8080'}}}\n"
    ),
    "bad resources": container("          resources: {limits: {gpu: 1, cpu: four}, requests: {memory: 1GB}}\n"),
    "bad labels": HEAD.replace("{name: j}", "{name: j, labels: {a b: c d}, annotations: {-: x}}") + "spec: {tasks: []}\n",
    "too long": HEAD + f"spec: {{schedulerName: {'s' * 64}, tasks: []}}\n",
    "no containers": tasks("  - template: {spec: {containers: []}}\n  - template: {spec: {}}\n  - {}\n"),
    "a bad duration": HEAD + "spec: {runningEstimate: 5 minutes, tasks: []}\n",
}  # fmt: skip


def message_line(problem: Problem) -> str:
    place = f"{problem.file}:{problem.line}:{problem.column}"
    shown = problem.path if len(problem.path) < 100 else problem.path[:20] + "..."
    return f"  {place} {problem.severity} [{shown}] {problem.message} -> {problem.hint}"


def messages() -> str:
    lines = []
    for name, raw in BYTES.items():
        try:
            decode(raw, "job.yaml")
        except SourceError as refused:
            lines += [f"# {name}", f"  {refused.message} -> {refused.hint}"]
    for name, text in TEXTS.items():
        bundle = load_text(text, "job.yaml")
        problems = [*bundle.problems, *(problem for job in bundle.jobs for problem in admit(job).problems)]
        lines += [f"# {name}", *map(message_line, problems)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(messages())
