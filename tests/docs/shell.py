"""A reader who follows a page: writes its files, types its commands, and compares what they print with the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.docs.pages import ROOT, Block, Command, blocks

#: What stands for a name or a number of the reader's own.
PLACEHOLDERS = {"JOB": "example", "NAME": "example", "N": "1", "POD": "pod"}
#: The reader's own script, where a page has none: the ranks meet at the master's port, as those of torch do.
TRAIN = """\
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["LOCAL_WORLD_SIZE"] == "1" and rank == 0:
    with socket.create_server(address) as server:
        joined = set()
        while len(joined) < world - 1:
            with server.accept()[0] as connection:
                joined.add(connection.recv(9))
            joined.discard(b"")  # a probe of wait-for-master
elif os.environ["LOCAL_WORLD_SIZE"] == "1":
    while True:
        try:
            with socket.create_connection(address) as connection:
                connection.sendall(str(rank).encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print(f"rank {rank} of {world}")
"""


class Shell:
    """A reader's shell in an empty folder: it runs the blocks of a page from top to bottom."""

    def __init__(self, folder: Path, why_not: Callable[[Command], str | None], **environment: str) -> None:
        """`why_not` says why a command is not run, if it is not."""
        self._folder, self._why_not = folder, why_not
        for name in ("train.py", "package/train.py"):
            self._write(name, TRAIN)
        self._write("pytorchjob.yaml", (ROOT / "examples/09-from-kubeflow/pytorchjob.yaml").read_text())
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._packages = folder / "site-packages"
        self._environment = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(self._packages),
            "VCJOB_HOME": str(folder / "store"),
            **environment,
        }
        self._output = ""

    def follow(self, page: Path) -> None:
        if "$ vcjob init" not in page.read_text(encoding="utf-8"):
            self._write("job.yaml", blocks(ROOT / "docs/pytorch-plugin.md", "yaml")[0].text)
        for block in blocks(page):
            if "not run" not in block.markers:
                self._do(block)

    def _do(self, block: Block) -> None:
        if "file" in block.markers:
            self._write(block.markers["file"], block.text)
        elif block.kind == "python":
            self.call([sys.executable, "-c", block.text])
        elif block.kind == "console":
            for command in block.commands():
                if command.text.startswith("pip install ."):
                    self._install()
                elif self._why_not(command) is None:
                    text = re.sub(
                        r"\b[A-Z]+\b", lambda name: PLACEHOLDERS.get(name[0], name[0]), command.text
                    )
                    self.call(["bash", "-c", text], command.exit_code)
                    self._compare(() if "sample output" in block.markers else command.output)
        elif "output" in block.markers:
            self._compare(block.text.splitlines())

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).parent.mkdir(exist_ok=True)
        (self._folder / name).write_text(text, encoding="utf-8")

    def _install(self) -> None:
        """`pip install .` for a package of the page; elsewhere it means vcjob itself, which is installed."""
        if (self._folder / "pyproject.toml").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
            self.call([*pip, "--target", str(self._packages), "."])

    def call(self, command: list[str], code: int = 0) -> str:
        """Its output; another exit code than `code` fails the test."""
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
        )
        self._output = done.stdout.replace(f"{self._folder}/", "")
        assert done.returncode == code, f"{command[-1]}\n{self._output}"
        return self._output

    def _compare(self, lines: list[str] | tuple[str, ...]) -> None:
        for line in lines:
            if line.strip():
                assert re.search(_pattern(line), self._output, re.MULTILINE), f"{line}\n--\n{self._output}"


def _pattern(line: str) -> str:
    """A line of output with any number in place of a number, any space in place of a space, and `...` for anything."""
    text = re.escape(" ".join(line.split())).replace(r"\.\.\.", ".*").replace(r"\ ", r"\s+")
    return re.sub(r"\d+(\\\.\d+)?", lambda _: r"\d+(?:\.\d+)?", text)
