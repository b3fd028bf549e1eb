"""One process of a testbed (an API server, a kubelet, ...): start, stop, pause, kill, restart, and what its log says."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.testbed.isolation.cell import PLAIN_ENVIRONMENT, Cell, TestbedFailed


class Part:
    """A named process inside a cell. The object holds no state of its own: any process may stop what another started."""

    def __init__(
        self, cell: Cell, name: str, argv: list[str] | None = None, env: dict[str, str] | None = None
    ) -> None:
        self.cell = cell
        self.name = name
        self.argv = argv
        self.env = {**PLAIN_ENVIRONMENT, **(env or {})}
        self.log_file: Path = cell.folder / "logs" / f"{name}.log"

    def start(self) -> Part:
        if self.argv is None:  # attached: as it was started before
            known = self._facts() or {}
            self.argv, self.env = known["argv"], known["env"]
        self.log_file.parent.mkdir(exist_ok=True)
        self.cell.ask("start", name=self.name, argv=self.argv, env=self.env, log=str(self.log_file))
        return self

    def _facts(self) -> dict[str, Any] | None:
        facts: dict[str, Any] | None = self.cell.ask("list")["parts"].get(self.name)
        return facts

    @property
    def running(self) -> bool:
        facts = self._facts()
        return facts is not None and facts["exit"] is None

    @property
    def exit_code(self) -> int | None:
        facts = self._facts()
        return facts["exit"] if facts else None

    @property
    def pid(self) -> int:
        """The pid on the machine (not the one inside)."""
        facts = self._facts()
        if facts is None or facts["exit"] is not None:
            raise TestbedFailed(f"{self.name} is not running")
        for pid in self.cell.processes():
            status = Path(f"/proc/{pid}/status").read_text()
            pids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
            if pids[-1] == str(facts["pid"]):
                return pid
        raise TestbedFailed(f"{self.name} is not running")

    def signal(self, number: int) -> None:
        self.cell.ask("signal", name=self.name, number=number)

    def pause(self) -> None:
        """All its threads stand still when this returns: the signal alone is only on its way."""
        self.signal(signal.SIGSTOP)
        self.wait_until(self._stands_still, "paused", 10)

    def _stands_still(self) -> bool:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.running:
            self.signal(signal.SIGKILL)
            self.wait_for_exit()

    def stop(self, patience: float = 15) -> None:
        """Asks it to end, insists after ``patience`` seconds; nothing happens where it is not running."""
        if not self.running:
            return
        try:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
        except TestbedFailed:  # it was quicker
            return
        try:
            self.wait_for_exit(patience)
        except TestbedFailed:
            self.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def wait_for_exit(self, patience: float = 15) -> None:
        until = time.monotonic() + patience
        while self.running:
            if time.monotonic() > until:
                raise TestbedFailed(f"{self.name} did not end within {patience:.0f} s")
            time.sleep(0.02)

    def answers(self, port: int, path: str) -> bool:
        """Whether a plain HTTP server inside says that all is well."""
        try:
            with urllib.request.urlopen(f"http://{self.cell.address}:{port}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait_until(self, ready: Callable[[], object], what: str, patience: float = 60) -> None:
        """Polls ``ready``; gives up with the end of the log when the process ends or the time is over."""
        until = time.monotonic() + patience
        while True:
            try:
                if ready():
                    return
            except OSError:
                pass
            if not self.running:
                raise TestbedFailed(
                    f"{self.name} ended (exit {self.exit_code}) before {what}:\n{self.log_tail()}"
                )
            if time.monotonic() > until:
                raise TestbedFailed(f"{self.name}: not {what} within {patience:.0f} s:\n{self.log_tail()}")
            time.sleep(0.03)

    def log_tail(self, lines: int = 25) -> str:
        try:
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    def memory(self) -> int:
        """Resident bytes."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
