"""The agent in a rank's process: a thread that writes which collectives the rank has issued and where its main thread is.

It reads PyTorch's flight recorder and the stack of the main thread every two seconds, which takes a tenth of a
millisecond while training moves, and writes a file when the rank stands still, every ten seconds, and at the end of
the process. `vcjob.diagnosis.rank_report` reads the file. The thread is not one of `threading`, so that a program
that waits for all its threads does not wait for it. All ranks of a machine read at the same time, so that their
reports can be compared. On a cluster, where no supervisor watches the process, the agent also notes since when it has
done nothing, while the rank stands still.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

#: Entries that torch keeps. The user's own setting counts.
BUFFER_SIZE = "100"
_SETTINGS = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_LARGEST_BUFFER = 1000  # a larger one is not read while training moves
_FULL_EVERY = 5
#: Seconds between two looks whether the imports have ended.
_IMPORTING = 0.1
_IMPORTER = "<frozen importlib._bootstrap"
_DEEPEST = 60
#: Torch's functions that wait for one rank, and the argument that names it.
_ENDS = {"send": "dst", "recv": "src"}
#: Seconds that a thread waits for the interpreter lock while another one runs Python code without a pause.
_CONTENDED = 0.004
#: Seconds that the end of a process waits for a report that is being made.
_LAST_REPORT = 2.0


def start(folder: str, sample: Callable[..., Any] | None = None) -> None:
    """Start the thread. Called in the main thread, while torch is being imported or before the program starts.

    `sample`: tells what a process does, see `activity`; None where somebody else watches it.
    """
    if not any(name in os.environ for name in _SETTINGS):
        os.environ[_SETTINGS[0]] = BUFFER_SIZE
    agent = Agent(folder, sample, every=min(2.0, float(os.environ.get("VCJOB_HANG_AFTER") or 20) / 10))
    atexit.register(agent.finish)
    _thread.start_new_thread(agent.run, ())


class Agent:
    """The reports of one process. `run` is the thread; `finish` is called at the end of the process."""

    def __init__(self, folder: str, sample: Callable[..., Any] | None, every: float) -> None:
        self.sample = sample
        self.sampled: Any = None
        self.idle_since: float | None = None
        self.quiet_since: float | None = None
        self.pid = os.getpid()
        self.main = _thread.get_ident()
        self.every = every
        self.ending = False
        #: Held while the thread uses torch.
        self.busy = _thread.allocate_lock()
        self.file = os.path.join(folder, "rank-state.%d.json" % self.pid)  # noqa: UP031 - also runs on old Pythons
        self.ticks = 0
        self.status: list[bytes] | None = None
        self.dumped: list[bytes] | None = None
        self.written: object = None
        self.dumps: list[dict[str, Any]] = []
        self.groups: dict[str, list[int]] = {}
        self.functions: list[list[Any]] = []
        self.stack_since = time.time()
        self.call: Callable[[], Any] | None = None
        self.call_since: float | None = None
        self.peer: int | None = None
        self.loops_since: float | None = None
        self.cpu = time.process_time()
        #: When the main thread was first seen outside of an import, and when the first collective was issued.
        self.imported_at: float | None = None
        self.first_call_at: float | None = None

    def run(self) -> None:
        failures = 0
        while failures < 3 and not self.ending:
            self.wait()
            with self.busy:
                try:
                    self.tick()
                    failures = 0
                except Exception:
                    failures += 1
        if not self.ending:
            self.withdraw()

    def wait(self) -> None:
        """Sleep until the next tick; while the program is imported, look when that ends."""
        # All ranks look at the same moments; a clock that is set back meanwhile must not delay this one.
        due = time.monotonic() + self.every - time.time() % self.every
        while (left := due - time.monotonic()) > 0:
            importing = self.imported_at is None and self.first_call_at is None
            time.sleep(min(left, _IMPORTING) if importing else left)
            if importing and not self.is_importing():
                self.imported_at = time.time()

    def withdraw(self) -> None:
        """Nothing more will be reported: the last report must not be taken for what the rank does now."""
        try:
            os.unlink(self.file)
        except OSError:
            pass

    def tick(self) -> None:
        now = time.time()
        self.ticks += 1
        status = [dump(False) for dump in self.recorders()]
        moved, self.status = status != self.status, status
        frames = self.stack()
        functions = [frame[:2] for frame in frames]
        same = functions == self.functions
        if not same:
            self.functions, self.stack_since = functions, now
        cpu, self.cpu = self.cpu, time.process_time()
        if moved or not same:
            self.loops_since = None
        elif self.cpu - cpu > self.every / 10:  # with less, on a busy machine, nothing can be said
            self.loops_since = (self.loops_since or now) if runs_python() else None
        noted = self.first_call_at is None and moved and self.note_first_call()
        was_idle = self.idle_since is not None or self.quiet_since is not None
        self.look(now, moved)
        if self.call is not None or (frames and frames[0][0] in _ENDS):
            try:
                self.look_at_call(now)
            except Exception:  # another torch: its transfers are not reported, everything else is
                self.call = self.call_since = self.peer = None
        regular = self.ticks % _FULL_EVERY == 0
        state = (
            status,
            functions,
            self.loops_since is None,
            self.idle_since,
            self.quiet_since,
            self.call_since,
        )
        if state != self.written and (regular or was_idle or noted or (status and not moved)):
            self.write(frames, regular and moved)
            self.written = state

    def look(self, now: float, moved: bool) -> None:
        """Note since when the process has done nothing, and since when nothing but use CPU time."""
        before, self.sampled = self.sampled, None
        if not moved and self.sample is not None:
            self.sampled = self.sample(self.pid, 0, now, _thread.get_native_id())
        idle = quiet = False
        if before is not None and self.sampled is not None:
            idle = self.sampled.is_idle_since(before)
            quiet = self.sampled.has_no_effect_since(before)
        self.idle_since = (self.idle_since or before.at) if idle else None
        self.quiet_since = (self.quiet_since or before.at) if quiet else None

    def finish(self) -> None:
        """The process ends: leave what the recorder holds for the diagnosis of a failure.

        It waits for the thread and keeps it from going on: a thread that is in native code of torch, or drops the last
        reference to a process group, while the interpreter ends would abort the process.
        """
        if os.getpid() != self.pid:
            return  # a forked child, which does not have the thread
        self.ending = True
        self.busy.acquire(timeout=_LAST_REPORT)
        try:
            if self.recorders():
                self.status = None
                self.write([], False, ended=True)
        except Exception:  # noqa: S110 - the user's program comes first
            pass

    def write(self, frames: list[list[Any]], moving: bool, ended: bool = False) -> None:
        import json

        c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
        rank = os.environ.get("RANK")
        if c10d is not None and c10d.is_initialized():
            rank = c10d.get_rank()
            world = getattr(c10d, "_world", None)
            if world is not None:  # another torch: the stack is reported alone
                # Groups of other ranks only have one entry together, which has no name.
                self.groups = {
                    world.pg_names[group]: sorted(ranks)
                    for group, ranks in dict(world.pg_group_ranks).items()
                    if group in world.pg_names
                }
        if (self.dumped is None or self.dumped != self.status) and not (moving and has_large_buffer()):
            self.dumps = [json.loads(dump(True)) for dump in self.recorders()]
            self.dumped = self.status
        report = {
            "pid": self.pid,
            "rank": None if rank is None else int(rank),
            "at": time.time(),
            "ended": ended,
            "stack_since": self.stack_since,
            "loops_since": self.loops_since,
            "idle_since": self.idle_since,
            "quiet_since": self.quiet_since,
            "groups": self.groups,
            "stack": frames,
            "call_since": self.call_since,
            "peer": self.peer,
            "imported_at": self.imported_at,
            "first_call_at": self.first_call_at,
            "entries": [entry for dump in self.dumps for entry in dump.get("entries") or []],
        }
        fresh = self.file + ".new"
        with open(fresh, "w") as file:
            file.write(json.dumps(report))  # `json.dump` encodes in Python, piece by piece
        os.replace(fresh, self.file)

    def recorders(self) -> list[Any]:
        """The functions that dump torch's recorders, for the backends that are in use."""
        c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
        native = sys.modules.get("torch._C._distributed_c10d")
        if native is None or not hasattr(c10d, "_world") or not (c10d._world.pg_map or self.groups):
            return []
        names = ["_dump_fr_trace_json"]
        if any("nccl" in str(backend[0]) for backend in list(c10d._world.pg_map.values())):
            names.append("_dump_nccl_trace_json")
        return [getattr(native, name) for name in names if hasattr(native, name)]

    def stack(self) -> list[list[Any]]:
        """Function, file and line of the main thread's frames, innermost first."""
        frame = sys._current_frames().get(self.main)
        found: list[list[Any]] = []
        while frame is not None and len(found) < _DEEPEST:
            code = frame.f_code
            found.append([code.co_name, code.co_filename, frame.f_lineno])
            frame = frame.f_back
        return found

    def is_importing(self) -> bool:
        frame = sys._current_frames().get(self.main)
        while frame is not None and not frame.f_code.co_filename.startswith(_IMPORTER):
            frame = frame.f_back
        return frame is not None

    def note_first_call(self) -> bool:
        """Note when the first collective was issued; of more of them than torch keeps, the oldest that it still knows."""
        import json

        dumps = [] if has_large_buffer() else [json.loads(dump(True)) for dump in self.recorders()]
        times = [entry["time_created_ns"] for each in dumps for entry in each.get("entries") or []]
        self.first_call_at = min(times) / 1e9 if times else None
        return bool(times)

    def look_at_call(self, now: float) -> None:
        """Note since when the main thread waits in one call of torch's `send` or `recv`, and for which rank.

        The recorder does not show these for gloo. A reference that keeps nothing alive tells one call from the next.
        """
        frame = sys._current_frames().get(self.main)
        end = None if frame is None else _ENDS.get(frame.f_code.co_name)
        c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
        work = None
        if (
            frame is not None
            and end is not None
            and frame.f_code.co_filename == getattr(c10d, "__file__", None)
        ):
            values = frame.f_locals
            work = values.get("work")
        if work is None:
            self.call = self.call_since = self.peer = None
        elif self.call is None or self.call() is not work:
            self.call, self.call_since, self.peer = weakref.ref(work), now, None
            peer, inside = values.get(str(end)), values.get(f"group_{end}")
            if peer is None and inside is not None:
                peer = c10d.get_global_rank(values.get("group") or c10d._get_default_group(), inside)
            self.peer = None if peer is None else int(peer)


def has_large_buffer() -> bool:
    return int(os.environ.get(_SETTINGS[0]) or 0) > _LARGEST_BUFFER


def runs_python() -> bool:
    """Whether another thread runs Python code without a pause: each time this one must wait for the interpreter lock."""
    shortest = 1.0
    for _ in range(10):
        began = time.perf_counter()
        time.sleep(0.001)
        shortest = min(shortest, time.perf_counter() - began)
    return shortest > _CONTENDED
