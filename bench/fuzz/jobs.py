"""Feeds nonsense to the loader and to admission: random bytes, random YAML, Jobs with random damage.

Whatever comes in, no exception may come out but a SourceError, and whatever is refused says why and where.
Any failure prints the case; `--seed` repeats a run.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from bench.fuzz.command_line import fuzz_main
from vcjob.admission.review import admit
from vcjob.errors import SourceError
from vcjob.spec import bundle
from vcjob.spec.document import Document
from vcjob.spec.problem import Problem
from vcjob.spec.source import decode

ROOT = Path(__file__).parents[2]
TOKENS = [
    "a", "b: ", "- ", "\n", "  ", "    ", "[", "]", "{", "}", ",", ":", "&x ", "*x", "<<: ", "? ", "| ", "> ", "'", '"',
    "!!int ", "!!python/object:os.system ", "!x ", "---\n", "...\n", "%YAML 1.1\n", "#", "\t", "~", "null", "yes", "0o7",
    "1e999", ".inf", "22:22", "2026-11-15", "\\ud83d\\ude00", "é", "😀", "\u2028", "\x85", "kind: Job\n",
    "apiVersion: batch.volcano.sh/v1alpha1\n", "metadata:\n  name: x\n", "spec:\n  tasks:\n  - ",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2**31 - 1, 2**31, 2**63, -(2**63), 2**64, 0.5, 1e30, "", "x", "0", "-1", "Always", "–port=1",
    "a" * 70, "A_b", "é", "\n", "1Gi", "10m", "*", "$(X)", [], {}, [None], [[]], [{}], ["x", 1], {"": None}, {"a": {"b": []}},
    {"name": "x"}, [{"name": "x", "image": "y"}], "master", "worker", ["--port=abc"], ["--master"], ["", "-", "--", "---"],
    ["--master=worker", "--worker=worker"], {"pytorch": None}, {"pytorch": ["--nproc-per-node=auto"], "svc": None, "ssh": []},
]  # fmt: skip
KEYS = [
    "name",
    "spec",
    "tasks",
    "replicas",
    "template",
    "containers",
    "env",
    "value",
    "imge",
    "metadata",
    "x",
    "",
    "a.b",
    "policies",
]


def random_bytes(chance: random.Random) -> bytes:
    kind = chance.randrange(3)
    length = chance.randrange(200)
    if kind == 0:
        return chance.randbytes(length)
    if kind == 1:
        return bytes(chance.choice(b" \n\t-:[]{},&*!|>'\"%@`#?ab01\x00\xff\xc3") for _ in range(length))
    return "".join(
        chr(chance.choice([chance.randrange(0x80), chance.randrange(0x3000), 0x1F600])) for _ in range(length)
    ).encode("utf-8", "surrogatepass")


def random_yaml(chance: random.Random) -> bytes:
    return "".join(chance.choice(TOKENS) for _ in range(chance.randrange(60))).encode()


def damaged_text(chance: random.Random, texts: list[str]) -> bytes:
    raw = bytearray(chance.choice(texts).encode())
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(raw))
        kind = chance.randrange(4)
        if kind == 0:
            raw[place] = chance.randrange(256)
        elif kind == 1:
            del raw[place : place + chance.randrange(1, 30)]
        elif kind == 2:
            raw[place:place] = chance.choice(TOKENS).encode()
        else:
            start = chance.randrange(len(raw))
            raw[place:place] = raw[start : start + chance.randrange(60)]
        if not raw:
            raw += b"\n"
    return bytes(raw)


def damaged_job(chance: random.Random, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    job = copy.deepcopy(chance.choice(jobs))
    for _ in range(chance.randrange(1, 5)):
        nodes = list(_nodes(job))
        node = chance.choice(nodes)
        key: Any
        if isinstance(node, dict):
            keys = [*node, chance.choice(KEYS)]
            key = chance.choice(keys)
            if chance.randrange(5) == 0:
                node.pop(key, None)
                continue
        elif node:
            key = chance.randrange(len(node))
            if chance.randrange(5) == 0:
                node.append(copy.deepcopy(node[key]))
                continue
        else:
            continue
        node[key] = copy.deepcopy(chance.choice(VALUES))
    return job


def _nodes(value: Any) -> Any:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _nodes(inner)


def judge(case: bytes | dict[str, Any], *, allow_unknown: bool) -> str:
    """What came of a case; AssertionError where the answer is not good enough."""
    try:
        if isinstance(case, dict):
            found = bundle.bundle([Document.of(case)])
        else:
            found = bundle.load_text(decode(case, "fuzz"), "fuzz")
    except SourceError as refused:
        assert refused.message
        assert refused.hint
        return "unreadable"
    positions = isinstance(case, bytes)
    _good(found.problems, positions=positions)
    outcome = "no job"
    for document in found.jobs:
        admission = admit(document, allow_unknown=allow_unknown)
        _good(admission.problems, positions=positions)
        assert (admission.job is None) == (not admission.valid)
        outcome = "valid" if admission.valid else "refused"
        if admission.valid:
            again = admit(admission.doc, allow_unknown=allow_unknown)
            assert again.valid, again.problems
            assert again.doc == admission.doc, "defaults are not stable"
    assert found.jobs or found.problems, "silence"
    return outcome


def _good(problems: list[Problem], *, positions: bool) -> None:
    for problem in problems:
        assert problem.message
        assert problem.path or problem.line or not positions, problem
        assert not positions or (problem.line and problem.column), problem
        json.dumps(problem.to_json())


def run(count: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    texts = [path.read_text() for path in sorted((ROOT / "tests/guides").glob("*.yaml"))]
    jobs = [yaml.safe_load(text) for text in texts]
    for name in ("guide-old", "multi", "res"):
        jobs.append(json.loads((ROOT / f"tests/reference/{name}.json").read_text())["job"])
    outcomes: Counter[str] = Counter()
    for number in range(count):
        kind = number % 4
        if kind == 0:
            case: bytes | dict[str, Any] = random_bytes(chance)
        elif kind == 1:
            case = random_yaml(chance)
        elif kind == 2:
            case = damaged_text(chance, texts)
        else:
            case = damaged_job(chance, jobs)
        try:
            outcomes[judge(case, allow_unknown=chance.randrange(4) == 0)] += 1
        except Exception:
            print(f"case {number} of seed {seed}: {case!r}", file=sys.stderr)
            raise
    return outcomes


def main() -> int:
    return fuzz_main("fuzz.jobs", __doc__, run)


if __name__ == "__main__":
    sys.exit(main())
