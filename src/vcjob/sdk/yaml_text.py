"""`vcjob.to_yaml()`: readable YAML with block text, without aliases, and unambiguous for every YAML reader.

The verbs that print manifests, `vcjob init` and the page use it. It writes any plain data and knows nothing about
Jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

# Readers of YAML 1.1 and 1.2 differ in what is a number, a date, a boolean or null: `1e3`, `0o17`, `y`, `1:30`.
# Text that any of them could take for one of those is quoted.
_AMBIGUOUS = re.compile(
    r"[-+.]?[0-9].*|\n*|[-+]?\.(inf|nan)|~|null|y|n|yes|no|on|off|true|false|<<|=", re.IGNORECASE
)
# Line ends in YAML 1.1, characters like others in 1.2.
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
_WIDTH = 1 << 20  # long lines stay lines: a folded command is hard to copy


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if _AMBIGUOUS.fullmatch(text) or _OTHER_BREAKS.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(document: Any) -> str:
    """One document as text for a file, keys in their own order: `Path("job.yaml").write_text(to_yaml(job))`.

    >>> print(to_yaml({"command": ["python", "-c", "a = 1\\nprint(a)\\n"]}), end="")
    command:
    - python
    - -c
    - |
      a = 1
      print(a)
    """
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=_WIDTH
    )


def to_yaml_stream(documents: Iterable[Any]) -> Iterator[str]:
    """Several documents, divided by `---`, one piece of text at a time."""
    for number, document in enumerate(documents):
        yield ("---\n" if number else "") + to_yaml(document)
