"""What is built: the pinned Go modules under ``go/`` and the programs each of them gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The newest four minors; ``programs.pin`` writes the module of each one. VCJOB_TESTBED_KUBERNETES=1.33 selects another
# than the default for the whole process.
KUBERNETES_VERSIONS = {"1.33": "v1.33.13", "1.34": "v1.34.4", "1.35": "v1.35.4", "1.36": "v1.36.3"}
DEFAULT_KUBERNETES = "1.35"
KUBERNETES_MINOR = os.environ.get("VCJOB_TESTBED_KUBERNETES") or DEFAULT_KUBERNETES
if KUBERNETES_MINOR not in KUBERNETES_VERSIONS:
    raise SystemExit(
        f"VCJOB_TESTBED_KUBERNETES is {KUBERNETES_MINOR!r}; it can be {', '.join(KUBERNETES_VERSIONS)}"
    )
KUBERNETES_VERSION = KUBERNETES_VERSIONS[KUBERNETES_MINOR]
VOLCANO_VERSION = "v1.15.1"
VOLCANO_APIS_VERSION = "v1.14.0"

_VERSION_PACKAGE = "k8s.io/component-base/version"


@dataclass(frozen=True, eq=False)
class Family:
    """One Go module: its programs by name, in the order in which tests need them."""

    name: str
    programs: Mapping[str, str]
    # The folder under ``go/`` where it differs from the name.
    source: str = ""
    linker_flags: str = ""
    # Data files that tests need in addition to the programs: path inside a module -> name in the cache.
    data: Mapping[str, str] = field(default_factory=dict)
    data_module: str = ""
    # Changes the private copy of the module folder before the build; its name is part of the cache key.
    prepare: Callable[[Path, Callable[[str], Path]], None] | None = None
    # Test programs (``go test -c``), built only when asked for by name.
    test_programs: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return self.source or self.name


def _add_the_missing_constant(folder: Path, module_folder: Callable[[str], Path]) -> None:
    """Volcano 1.15.1 uses one constant that no published version of its API module has: add it to a copy of the newest."""
    import shutil

    copy = folder / "apis"
    shutil.copytree(module_folder(f"volcano.sh/apis@{VOLCANO_APIS_VERSION}"), copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    (copy / "pkg/apis/scheduling/v1beta1/queue_allocation_gate.go").write_text(
        'package v1beta1\n\nconst QueueAllocationGateKey = GroupName + "/queue-allocation-gate"\n'
    )
    go_mod = folder / "go.mod"
    pinned = f"volcano.sh/apis => volcano.sh/apis {VOLCANO_APIS_VERSION}"
    text = go_mod.read_text()
    if pinned not in text:
        raise ValueError(f"{go_mod} does not pin volcano.sh/apis {VOLCANO_APIS_VERSION}")
    go_mod.write_text(text.replace(pinned, "volcano.sh/apis => ./apis"))


_K8S = "k8s.io/kubernetes/cmd"
_VOLCANO = "volcano.sh/volcano"


def kubernetes(minor: str) -> Family:
    """The programs of one Kubernetes minor; the cache keeps every version apart because its module's hashes differ."""
    version = KUBERNETES_VERSIONS[minor]
    return Family(
        "kubernetes",
        {
            name: f"{_K8S}/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubectl",
                "kubelet",
                "kube-proxy",
            )
        },
        source="" if minor == DEFAULT_KUBERNETES else f"kubernetes-{minor}",
        linker_flags=(
            f"-X {_VERSION_PACKAGE}.gitVersion={version} -X {_VERSION_PACKAGE}.gitMajor=1 "
            f"-X {_VERSION_PACKAGE}.gitMinor={minor.split('.')[1]} -X {_VERSION_PACKAGE}.gitTreeState=clean"
        ),
    )


FAMILIES: tuple[Family, ...] = (
    Family("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    kubernetes(KUBERNETES_MINOR),
    Family("coredns", {"coredns": "."}),
    Family("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Family(
        "volcano",
        {
            "vc-controller-manager": f"{_VOLCANO}/cmd/controller-manager",
            "vc-scheduler": f"{_VOLCANO}/cmd/scheduler",
            "vc-webhook-manager": f"{_VOLCANO}/cmd/webhook-manager",
            "vcctl": f"{_VOLCANO}/cmd/cli",
        },
        data={
            "config/crd/volcano/bases": "crds",
            "config/crd/jobflow/bases": "crds-jobflow",
            "installer/helm/chart/volcano/config": "config",
            "installer/helm/chart/volcano/templates": "templates",
        },
        data_module=f"{_VOLCANO}@{VOLCANO_VERSION}",
        prepare=_add_the_missing_constant,
        test_programs={
            f"volcano-e2e-{name}": f"{_VOLCANO}/test/e2e/{name}"
            for name in ("jobp", "jobseq", "admission", "vcctl")
        },
    ),
    # A maintained fork: the original's own versions cannot be had from the module proxy.
    Family("kube-router", {"kube-router": "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"}),
    Family("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}),
)

# Built without being asked; the others (helm, Volcano's own end-to-end suites) on demand.
DEFAULT_FAMILIES = ("etcd", "kubernetes", "coredns", "kwok", "volcano", "kube-router")


def family_of(program: str) -> Family:
    for family in FAMILIES:
        if program in family.programs or program in family.test_programs:
            return family
    raise KeyError(f"no module under tests/testbed/go gives a program {program}")
