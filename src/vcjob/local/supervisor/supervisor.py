"""The supervisor: one small process per job, detached from the shell that started it.

It observes the job's pods, calls `decide()`, writes the status, then executes the steps. A crash loses nothing: its
state is in the run's folder, and the processes that it started end with it. Other processes talk to it through the
run's folder (`RunDir.send`) and by signals.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from vcjob.diagnosis.hang_settings import first_check, hang_seconds
from vcjob.errors import StoreError, VcjobError
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.observed import Blocked, Command, Observed
from vcjob.lifecycle.status import Phase, Status
from vcjob.lifecycle.step import CreatePods, DeleteCommand, EmitEvent, FailPods, KillPods, Step
from vcjob.local.logs.retention import LogRetention, limit_of
from vcjob.local.machine import files, gpus, linux
from vcjob.local.machine.loop import Loop, Timer
from vcjob.local.pod.limits import Limits
from vcjob.local.pod.prepare import Preparer
from vcjob.local.run.run_dir import LOCK_DESCRIPTOR, Event, RunDir
from vcjob.local.supervisor import host_setup
from vcjob.local.supervisor.gpu_allocator import GpuAllocator
from vcjob.local.supervisor.pods import Pods
from vcjob.local.supervisor.prestart import ENDING_SIGNALS, PROCESS_NAME
from vcjob.local.warm.policy import WarmPolicy
from vcjob.plan.plan import Plan
from vcjob.wellknown import reasons
from vcjob.wellknown.annotations import MASTER_PORT

if TYPE_CHECKING:
    from vcjob.local.supervisor.hang_watch import HangMonitor
    from vcjob.local.warm.prestart import PrestartedZygote


_POLL_COMMANDS = 1.0
_RETRY_STORE = 1.0
_RETRY_PODS = 1.0
_WRITE_PODS = 0.1
_SIGNAL = "signal"  # the uid of a request that came as a signal and could not be written


class Supervisor:
    """Runs one job to its end: `serve` returns when the job is over or suspended and none of its processes is left.

    While the store cannot be written, running pods continue and nothing is decided; a stop is carried out anyway.
    """

    def __init__(self, run: RunDir, zygote: PrestartedZygote | None = None) -> None:
        self.run = run
        self.job = run.job()
        self.status = run.status() or Status()
        config = run.config()
        self.loop = Loop()
        self.observed = Observed()
        self._notes: set[str] = set()
        self._in_trouble = False
        #: A stop was requested and cannot be recorded: the supervisor ends without the store.
        self._must_end = False
        self._unwritten = False
        plan = Plan(self.job)
        port, local_port, self._port_claim = host_setup.find_port(plan)
        host = host_setup.make_host_context(run, plan, config, port, local_port)
        self._record_port(port, local_port)
        self._gpus = GpuAllocator(self.job, config.env, self.observed, self.loop, self._decide_soon)
        limits = Limits(run.uid)
        self._warm_policy = WarmPolicy(config, self.job, run.uid, self._note, zygote)
        self.pods = Pods(
            run,
            plan,
            self.loop,
            Preparer(
                host,
                cwd=config.cwd,
                image_map=config.images,
                claims=host_setup.claim_folders(run, plan),
                limits=limits,
                hide_gpus=gpus.hides_gpus(config.env),
            ),
            self.observed,
            launcher=self._warm_policy.launcher,
            changed=self._decide_soon,
            noted=self._note_once,
            output_lost=lambda reason: self._note_once(reasons.LOGS_LOST, reason),
            gone=self._gpus.give_back,
            close_in_shim=self._close_in_shim,
        )
        self._limits = limits
        self._log_retention = LogRetention(run.path("pods"), limit_of(config.env), self._logs_truncated)
        self.pods.other_children = self._warm_policy.pids
        self.pods.remember(run.pods())
        self._decide_timer: Timer | None = None
        self._wake_timer: Timer | None = None
        self._write_timer: Timer | None = None
        self._wake_fd = run.open_wake()
        self._hang_monitor: HangMonitor | None = None

    def serve(self) -> None:
        linux.become_subreaper()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.loop.on_signals((*ENDING_SIGNALS, signal.SIGCHLD), self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP, *ENDING_SIGNALS))  # see prestart.py
        if self._wake_fd is not None:
            self.loop.on_readable(self._wake_fd, self._on_wake)
        self._poll_commands()
        self._check_log_size()
        self.run.remove_findings()  # of a job that is resumed
        hang_after = hang_seconds(self.run.config().env)
        if "pytorch" in self.job.spec.plugins and hang_after is not None:
            self.loop.after(first_check(hang_after), self._watch_for_hangs)
        self._decide_soon()
        self.loop.run()
        self._limits.remove()
        self._warm_policy.end()

    # Deciding

    def _decide_soon(self) -> None:
        """Decide once all reports that have arrived are read."""
        if self._decide_timer is None or not self._decide_timer.waiting:
            self._decide_timer = self.loop.after(0, self._decide)

    def _decide(self) -> None:
        decision = decide(self.job, self.status, self.observed, time.time())
        try:
            if decision.status is not self.status:
                self._record(decision.status)
            self._execute(decision.steps)
            if self._done():
                self._leave()
                return
        except StoreError as error:
            self._report_trouble(error)
            self._retry_after(_RETRY_STORE)
            return
        if not self.pods.dirty:
            self._clear_trouble()
        self._write_pods_soon()
        if self._wake_timer:
            self._wake_timer.cancel()
        if decision.wake_at is not None:
            self._wake_timer = self.loop.after(decision.wake_at - time.time() + 0.001, self._decide_soon)

    def _record(self, status: Status) -> None:
        try:
            self.pods.write()  # first, so that a reader of the counters finds the pods too
            self.run.write_status(status)
        except StoreError as error:
            if not self._must_end:
                raise
            self._unwritten = True
            self._report_trouble(error)
        self.status = status

    def _leave(self) -> None:
        try:
            if self._unwritten:
                self.run.write_status(self.status)
            self.pods.write(last=True)
            if self.status.over:
                self.run.reserve.release()
                self.run.forget_environment()
            if self._in_trouble:
                self.run.set_trouble("")
            if self.status.phase is Phase.FAILED:
                self._explain()
        except StoreError as error:
            if not self._must_end:
                raise
            self.run.set_trouble(f"the job was stopped, and its end could not be recorded: {error.message}")
        self.loop.stop()

    def _explain(self) -> None:
        """Record why the job failed, as `vcjob why` will say it."""
        from vcjob.diagnosis.explanation import explained
        from vcjob.local.logs.observation import collect

        try:
            status, finding = explained(self.status, collect(self.run, self.status, self.run.pods()))
        except Exception as error:  # the end of the job must be recorded whatever its ranks have printed
            sys.__excepthook__(type(error), error, error.__traceback__)  # needs no slow import
            return
        with suppress(StoreError):  # a full disk: `vcjob why` finds the same again
            if finding is not None:
                self.run.add_event(Event(time.time(), "Warning", finding.cause, finding.message))
            if status is not self.status:
                self._record(status)

    def _done(self) -> bool:
        ended = self.status.over or self.status.phase is Phase.ABORTED
        return ended and not self.pods.living and not self.observed.commands

    def _execute(self, steps: tuple[Step, ...]) -> None:
        creations = [step for step in steps if isinstance(step, CreatePods)]
        may_create = self._gpus.allocate(creations, self.pods.uid_of)
        if not may_create:
            self._decide_soon()  # the next decision gives the missing GPUs as the reason
        for step in steps:
            match step:
                case CreatePods():
                    if may_create:
                        self._create(step)
                case KillPods():
                    self.pods.kill(step)
                case FailPods():
                    self.pods.fail(step)
                case DeleteCommand():
                    self.run.forget_command(step.uid)
                    self.observed.commands.pop(step.uid, None)
                    self._decide_soon()
                case EmitEvent():
                    self._record_event(step.type, step.reason, step.message)
                case _:
                    pass  # no PodGroup here; the next verb removes what outlived its TTL

    def _create(self, step: CreatePods) -> None:
        try:
            self.pods.create(step, self._gpus.of)
            self.observed.blocked = None
        except OSError as error:  # no process or memory available
            self.observed.blocked = Blocked(
                reasons.CANNOT_START_PROCESS, f"a pod cannot be started: {error.strerror}"
            )
            self._retry_after(_RETRY_PODS)

    def _retry_after(self, seconds: float) -> None:
        self.loop.after(seconds, self._decide_soon)

    def _report_trouble(self, error: StoreError) -> None:
        """The store cannot be written: what runs continues, and nothing is decided until it can be written again."""
        self._in_trouble = True
        self.run.set_trouble(error.message + (f" ({error.hint})" if error.hint else ""))

    def _clear_trouble(self) -> None:
        """The store can be written again: take the reserved room again too, for the next time."""
        if self._done():
            return  # a timer that was due while the end was recorded
        if self._in_trouble or not self.run.reserve.exists():
            try:
                self.run.reserve.take()
            except StoreError as error:
                self._report_trouble(error)
                self._retry_after(_RETRY_STORE)
            else:
                self.run.set_trouble("")
                self._in_trouble = False

    def _write_pods_soon(self) -> None:
        if self.pods.dirty and (self._write_timer is None or not self._write_timer.waiting):
            self._write_timer = self.loop.after(_WRITE_PODS, self._write_pods)

    def _write_pods(self) -> None:
        try:
            self.pods.write()
        except StoreError as error:
            self._report_trouble(error)
            self._retry_after(_RETRY_STORE)
        else:
            self._clear_trouble()

    # Commands and signals

    def _on_wake(self) -> None:
        assert self._wake_fd is not None
        try:
            os.read(self._wake_fd, 4096)
        except BlockingIOError:
            pass
        self._read_commands()

    def _poll_commands(self) -> None:
        self.loop.after(_POLL_COMMANDS, self._poll_commands)
        try:
            os.stat(self.run.folder)
        except FileNotFoundError:
            sys.stderr.write(f"the run was removed: {self.run.folder} does not exist\n")
            self.loop.stop()  # end all of it
        except OSError as error:  # a network file system that does not answer, for example
            if not self._in_trouble:
                self._retry_after(_RETRY_STORE)
            self._report_trouble(files.cannot_read(self.run.folder, error))
        else:
            self._read_commands()

    def _read_commands(self) -> None:
        try:
            found = self.run.commands()
        except StoreError:
            return
        for command in found:
            if command.action == "Kill":
                with suppress(StoreError):
                    self.run.forget_command(command.uid)
                self.pods.kill_now()
            elif command.uid not in self.observed.commands:
                self.observed.commands[command.uid] = Command(command.uid, command.action)
                self._decide_soon()

    def _on_signal(self, number: int) -> None:
        if number in ENDING_SIGNALS:
            try:
                name = signal.Signals(number).name
                self.run.send("TerminateJob", time.time(), by=f"{name} to the supervisor")
                self._read_commands()
            except StoreError:  # a full disk, for example: it is ended anyway
                self._must_end = True
                self.observed.commands[_SIGNAL] = Command(_SIGNAL, "TerminateJob")
                self._decide_soon()
            if number == signal.SIGQUIT:
                self.pods.kill_now()
        else:
            _reap()

    def _check_log_size(self) -> None:
        pause = self._log_retention.check()
        if pause is not None:
            self.loop.after(pause, self._check_log_size)

    def _watch_for_hangs(self) -> None:
        """Check whether the ranks wait for each other; `decide()` learns it as part of what is observed."""
        from vcjob.local.supervisor.hang_watch import HangMonitor

        monitor = self._hang_monitor = self._hang_monitor or HangMonitor(self.run, self._record_event)
        self.observed.hang = monitor.step(self.status, list(self.pods.record.values()))
        if self.observed.hang is not None:
            self._decide_soon()
        if not monitor.off:
            self.loop.after(monitor.interval, self._watch_for_hangs)

    # Events

    def _note(self, note: str) -> None:
        self._note_once(reasons.UNSUPPORTED_LOCALLY, note)

    def _logs_truncated(self, message: str) -> None:
        self._note_once(reasons.LOGS_TRUNCATED, message)

    def _note_once(self, reason: str, message: str) -> None:
        """Record an event that the user should see, once per job. All but the share of the cores are warnings."""
        if message not in self._notes:
            self._notes.add(message)
            self._record_event("Normal" if reason == reasons.CORES_SHARED else "Warning", reason, message)

    def _record_event(self, kind: str, reason: str, message: str) -> None:
        try:
            self.run.add_event(Event(time.time(), kind, reason, message))
        except StoreError as error:
            self._report_trouble(error)

    def _record_port(self, port: int | None, local_port: int | None) -> None:
        if port is None:
            return
        self.status = msgspec.structs.replace(
            self.status, resources={**self.status.resources, MASTER_PORT: str(local_port)}
        )
        if port != local_port:
            self._record_event(
                "Normal",
                reasons.PORT_REPLACED,
                f"port {port} is in use here; using port {local_port} for MASTER_PORT",
            )

    # Processes

    def _close_in_shim(self) -> None:
        """A shim keeps the claims (they end with the last of the job's processes), but not the run's lock."""
        self.loop.close()
        os.close(LOCK_DESCRIPTOR)
        if self._wake_fd is not None:
            os.close(self._wake_fd)


def _reap() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def main(folder: str, zygote: PrestartedZygote | None = None) -> int:
    run = RunDir(folder)
    linux.set_process_name(PROCESS_NAME)
    try:
        Supervisor(run, zygote).serve()
    except VcjobError as error:
        run.set_trouble(error.message)
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0
