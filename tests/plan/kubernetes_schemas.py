"""The published schemas of Kubernetes in strict form: unknown fields are errors."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs

from vcjob.cluster.install.settings import SUPPORTED_KUBERNETES

OLDEST, *_, NEWEST = SUPPORTED_KUBERNETES


def problems(obj: dict[str, Any], version: str) -> list[str]:
    validator = _validator(obj["kind"], obj["apiVersion"], version)
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(obj)]


@cache
def _validator(kind: str, api_version: str, version: str) -> Any:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    group, _, number = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.split(".")[0], number) if part)
    schema = json.loads(re.sub('"[^"]*_definitions.json#/', '"#/', (folder / f"{name}.json").read_text()))
    schema.pop("$id", None)
    schema["$defs"] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return jsonschema_rs.Draft202012Validator(schema)
