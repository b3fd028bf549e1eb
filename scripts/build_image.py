"""Builds the controller's container image without a container engine.

    python -m scripts.build_image [NAME] [ARCHIVE]        (from the repository's root)

Debian's own Python, what our wheel needs, and the wheel: layers of one archive, in the form that `docker load`,
`podman load`, `ctr images import` and `skopeo copy docker-archive:...` read. NAME is vcjob:<version>, ARCHIVE is
dist/vcjob-image.tar unless given. Needs apt-get, dpkg-deb and pip; nothing is installed here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.testbed.images.archive import write_image
from tests.testbed.images.catalog import PATH, python_layer, vcjob_layers
from tests.testbed.paths import REPOSITORY
from vcjob.cluster.install.objects.workload import USER
from vcjob.cluster.install.settings import IMAGE

ENVIRONMENT = {"PATH": PATH, "PYTHONUNBUFFERED": "1", "HOME": "/tmp"}  # noqa: S108 - a path inside the image


def main(name: str = IMAGE, archive: str = str(REPOSITORY / "dist" / "vcjob-image.tar")) -> int:
    base = python_layer()
    target = write_image(
        Path(archive).absolute(),
        [name],
        [base, *vcjob_layers(base)],
        ["/usr/local/bin/vcjob"],
        ENVIRONMENT,
        user=f"{USER}:{USER}",
    )
    print(f"{target}: {name}, {target.stat().st_size / 2**20:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
