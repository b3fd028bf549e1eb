"""Writes container images without a registry or a builder: layers are tar files, an image is a tar of layers.

The format is the archive that ``docker save`` writes and ``ctr images import`` reads.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_layer(
    target: Path, files: Mapping[str, bytes | Path], links: Mapping[str, str], folders: Mapping[str, int]
) -> Path:
    """A layer from single files: contents or the path of a file here, all executable; the same input gives the same bytes."""
    with _fresh(target) as fresh, tarfile.open(fresh, "w") as tar:
        for name, mode in folders.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for name, source in files.items():
            content = source if isinstance(source, bytes) else source.resolve().read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for name, to in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, to
            tar.addfile(entry)
    return target


def pack_layer(target: Path, folder: Path) -> Path:
    """A layer from a whole folder, owned by root."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = "root"
        return entry

    with _fresh(target) as fresh, tarfile.open(fresh, "w") as tar:
        for entry in sorted(folder.iterdir()):
            tar.add(entry, entry.name, filter=plain)
    return target


def write_image(
    target: Path,
    names: list[str],
    layers: list[Path],
    command: list[str],
    environment: Mapping[str, str],
    user: str = "",
) -> Path:
    """An image under one or several names, whose containers run ``command`` unless the pod names another command."""
    config = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(
                os.uname().machine, os.uname().machine
            ),
            "os": "linux",
            "config": {
                "Entrypoint": command,
                "Env": [f"{k}={v}" for k, v in environment.items()],
                "User": user,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in layers]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    inner = [f"{index}-{layer.stem}/layer.tar" for index, layer in enumerate(layers)]
    manifest = json.dumps([{"Config": config_name, "RepoTags": names, "Layers": inner}]).encode()
    with _fresh(target) as fresh, tarfile.open(fresh, "w") as tar:
        for name, layer in zip(inner, layers):
            tar.add(layer, name)
        for name, content in ((config_name, config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return target


class _fresh:
    """A file next to the target that takes its place only when all went well."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f".{target.name}.{secrets.token_hex(4)}")

    def __enter__(self) -> Path:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        return self.path

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.path.replace(self.target)
        self.path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
