"""Writes the Go module that pins one version of Kubernetes: ``python -m tests.testbed.programs.pin 1.36``.

Run by hand after a version in ``families.KUBERNETES_VERSIONS`` has changed; go.mod and go.sum are then committed.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.testbed.paths import PACKAGE
from tests.testbed.programs.families import KUBERNETES_VERSIONS, kubernetes
from tests.testbed.programs.toolchain import find_go, go_environment


def pin(minor: str) -> None:
    family, version = kubernetes(minor), KUBERNETES_VERSIONS[minor]
    folder = PACKAGE / "go" / family.folder
    folder.mkdir(exist_ok=True)
    go_mod = folder / "go.mod"
    go_mod.write_text(f"module vcjob.testbed/{family.folder}\n\ngo 1.26\n")
    (folder / "go.sum").unlink(missing_ok=True)
    module = json.loads(_go(["mod", "download", "-json", f"k8s.io/kubernetes@{version}"], folder))
    published = json.loads(_go(["mod", "edit", "-json", module["GoMod"]], folder))
    # Kubernetes requires its staging modules at v0.0.0 and replaces them by folders that its module does not contain.
    staging = [r["Old"]["Path"] for r in published["Replace"] if r["New"]["Path"].startswith("./staging/")]
    edits = [f"-replace={path}={path}@{version.replace('v1.', 'v0.', 1)}" for path in staging]
    edits += [
        f"-require=k8s.io/kubernetes@{version}",
        *(f"-tool={path}" for path in family.programs.values()),
    ]
    _go(["mod", "edit", *edits], folder)
    _go(["mod", "tidy"], folder)


def _go(arguments: list[str], folder: object) -> str:
    done = subprocess.run(
        [find_go(), *arguments],
        cwd=str(folder),
        env=go_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        pin(wanted)
