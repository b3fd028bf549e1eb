"""A program cannot distinguish a forked rank from a freshly started one."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from tests.local.warm.conftest import PYTHON, Starter, environment

PROBE = """
import io, json, os, resource, signal, sys, threading

def stream(s):
    return [type(s).__name__, s.name, s.encoding, s.errors, s.line_buffering, s.write_through, s.mode, s.closed]

def handler(number):
    found = signal.getsignal(number)
    return found.name if isinstance(found, signal.Handlers) else getattr(found, '__name__', str(found))

here = set(globals())
open_now = sorted(os.listdir('/proc/self/fd'))
print(json.dumps({
    'argv': sys.argv, 'orig_argv': sys.orig_argv, 'path': sys.path, 'executable': sys.executable,
    'prefix': [sys.prefix, sys.base_prefix, sys.exec_prefix], 'flags': list(sys.flags),
    'warnoptions': sys.warnoptions, 'xoptions': sorted(sys._xoptions),
    'main': [__name__, globals().get('__file__'), str(__spec__).split(' at 0x')[0], type(__loader__).__name__, __package__,
             globals().get('__cached__'), __doc__, type(__builtins__).__name__, globals().get('__annotations__')],
    'main_loader': getattr(__loader__, 'path', None), 'names': sorted(here),
    'is_main': sys.modules['__main__'].__dict__ is globals(),
    'cwd': os.getcwd(), 'env': dict(os.environ), 'umask': os.umask(0),
    'limits': {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith('RLIMIT_')},
    'signals': {int(n): handler(n) for n in signal.valid_signals()},
    'mask': sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    'wakeup': signal.set_wakeup_fd(-1), 'descriptors': open_now,
    'targets': [os.readlink('/proc/self/fd/0'), os.path.basename(os.readlink('/proc/self/fd/1')) > ''],
    'streams': [stream(sys.stdin), stream(sys.stdout), stream(sys.stderr)],
    'same': [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    'thread': [threading.current_thread() is threading.main_thread(), threading.active_count()],
    'leader': [os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid()],
    'cmdline': open('/proc/self/cmdline').read().split('\\0'),
    'environ': sorted(open('/proc/self/environ').read().split('\\0')),
    'comm': open('/proc/self/comm').read(),
    'nice': os.nice(0), 'ours': [n for n in sys.modules if 'vcjob' in n],
    'hooks': [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    'gettrace': str(sys.gettrace()), 'switch': sys.getswitchinterval(), 'recursion': sys.getrecursionlimit(),
}))
"""


def probed(
    starter: Starter, *argv: str, env: dict[str, str] | None = None, **fields: object
) -> dict[str, object]:
    outcome = starter.run(*argv, env=env, **fields)
    assert outcome.code == 0, outcome.err
    found: dict[str, object] = json.loads(outcome.out)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["probe.py"],
        ["probe.py", "a b", "--flag=ü", ""],
        ["./sub/../probe.py", "x"],
        ["sub/linked.py"],
        ["-m", "probe", "x", "-y"],
        ["-m", "sub.inner"],
        ["-u", "probe.py"],
        ["-O", "-W", "ignore", "-Xutf8", "probe.py"],
        ["-BOm", "probe"],
        ["-P", "probe.py"],
        ["-I", "probe.py"],
        ["sub"],
    ],
    ids=" ".join,
)
def test_everything_a_program_can_ask_for_is_the_same(
    plain: Starter, warm: Starter, said: list[str], words: list[str]
) -> None:
    folder = plain.folder
    (folder / "probe.py").write_text(PROBE)
    (folder / "sub").mkdir()
    (folder / "sub" / "__init__.py").touch()
    (folder / "sub" / "inner.py").write_text(PROBE)
    (folder / "sub" / "__main__.py").write_text(PROBE)
    (folder / "sub" / "linked.py").symlink_to(folder / "probe.py")
    env = environment(RANK="3", MASTER_ADDR="127.0.0.1", OWN="value with = and ü", EMPTY="")
    fresh = probed(plain, PYTHON, *words, env=env, umask=0o027)
    forked = probed(warm, PYTHON, *words, env=env, umask=0o027)
    assert forked == fresh
    assert said == []


def test_python_is_found_and_named_as_a_shell_would(plain: Starter, warm: Starter) -> None:
    (plain.folder / "probe.py").write_text(PROBE)
    folder = os.path.dirname(PYTHON)
    env = environment(PATH=f"/nowhere:{folder}:{os.environ['PATH']}")
    for name in ("python", "python3", f"python3.{sys.version_info.minor}"):
        if os.path.exists(os.path.join(folder, name)):
            fresh, forked = probed(plain, name, "probe.py", env=env), probed(warm, name, "probe.py", env=env)
            assert forked == fresh, name


def test_limits_of_the_caller_hold_in_the_rank(warm: Starter, plain: Starter) -> None:
    (plain.folder / "probe.py").write_text(PROBE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        warm.run(PYTHON, "probe.py")  # the zygote is there, with the limits of before
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
        forked = probed(warm, PYTHON, "probe.py")
        assert forked == probed(plain, PYTHON, "probe.py")
        assert forked["limits"]["RLIMIT_NOFILE"][0] == soft - 1  # type: ignore[index]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


ENDINGS = {
    "returns": "print('done')",
    "exit 3": "import sys; sys.exit(3)",
    "exit 300": "import sys; sys.exit(300)",
    "exit none": "import sys; sys.exit()",
    "exit text": "import sys; sys.exit('why')",
    "exit object": "raise SystemExit([1, 2])",
    "exception": "def f():\n    raise ValueError('deep')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
    "context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('x')",
    "group": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "syntax": "x = (\nprint(1)",
    "indentation": "if 1:\nprint(1)",
    "import": "import no_such_module_anywhere",
    "interrupt": "raise KeyboardInterrupt",
    "os exit": "import os; print('x'); os._exit(7)",
    "abort": "import os; os.abort()",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "segfault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "alarm": "import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(5)",
    "atexit": "import atexit; atexit.register(print, 'last'); atexit.register(print, 'first'); 1 / 0",
    "atexit fails": "import atexit\nclass F:\n    def __call__(self): 1 / 0\n    def __repr__(self): return 'F'\natexit.register(F())",
    "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('t'))).start()",
    "thread fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join()",
    "daemon": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "unflushed": "import sys, io; sys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False)); print('kept')",
    "open file": "f = open('left.txt', 'w'); f.write('kept'); print(open('left.txt').read() == '')",
    "del": "class D:\n    def __del__(self): print('gone')\nd = D()",
    "hook": "import sys\nsys.excepthook = lambda t, v, tb: print(t, v, tb.tb_frame.f_code.co_name, tb.tb_next)\n1 / 0",
    "warning": "import warnings; warnings.warn('careful', UserWarning)",
    "last": "import sys, atexit; atexit.register(lambda: print(sys.last_value, hasattr(sys, 'last_traceback'))); 1 / 0",
    "stdin": "import sys; print(repr(sys.stdin.read())); input()",
    "main file": "import sys, atexit; atexit.register(lambda: print('__file__' in vars(sys.modules['__main__'])))",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
    "traceback": "import traceback\ntry:\n    1 / 0\nexcept Exception: print(traceback.format_exc())",
    "annotations": "x: int = 1\nprint(__annotations__)",
    "fork": "import os\nif os.fork() == 0:\n    os._exit(5)\nprint(os.wait()[1] >> 8)",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import os, sys; "
    'print(sys.flags.safe_path, len(os.listdir("/proc/self/fd")))\'], capture_output=True, text=True).stdout)',
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_it_ends_as_a_fresh_start_would(plain: Starter, warm: Starter, said: list[str], ending: str) -> None:
    (plain.folder / "program.py").write_text(ENDINGS[ending])
    fresh = plain.run(PYTHON, "program.py")
    forked = warm.run(PYTHON, "program.py")
    assert forked == fresh
    assert said == []


@pytest.mark.parametrize("ending", ["exception", "exit text", "interrupt", "syntax", "returns"])
def test_a_module_ends_as_a_fresh_start_would(plain: Starter, warm: Starter, ending: str) -> None:
    (plain.folder / "program.py").write_text(ENDINGS[ending])
    assert warm.run(PYTHON, "-m", "program") == plain.run(PYTHON, "-m", "program")


@pytest.mark.parametrize(
    "words", [["no-such.py"], ["-m", "no_such"], ["-m", "no.such"], ["-m", "json"], ["."]]
)
def test_a_missing_file_or_module_gives_the_error_of_python(
    plain: Starter, warm: Starter, words: list[str]
) -> None:
    assert warm.run(PYTHON, *words) == plain.run(PYTHON, *words)


def test_processes_that_it_spawns_find_their_way(plain: Starter, warm: Starter, said: list[str]) -> None:
    (plain.folder / "program.py").write_text(
        "import multiprocessing as mp, os\n"
        "def work(q): q.put((os.getcwd(), mp.parent_process() is not None, __name__))\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn', 'forkserver'):\n"
        "        context = mp.get_context(how)\n"
        "        queue = context.SimpleQueue()\n"
        "        process = context.Process(target=work, args=(queue,))\n"
        "        process.start(); print(how, queue.get()); process.join(); print(process.exitcode)\n"
    )
    forked = warm.run(PYTHON, "program.py")
    assert forked == plain.run(PYTHON, "program.py")
    assert forked.out.count("\n0\n") == 3
    assert said == []


def test_ranks_draw_different_random_numbers(warm: Starter) -> None:
    (warm.folder / "program.py").write_text(
        "import random, multiprocessing, tempfile\n"
        "print(random.random(), bytes(multiprocessing.current_process().authkey))"
    )
    assert len({warm.run(PYTHON, "program.py").out for _ in range(3)}) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="binding a folder without a user namespace needs root")
def test_volumes_are_mounted_in_the_rank_alone(warm: Starter, plain: Starter) -> None:
    from vcjob.local.pod.launch import Mount
    from vcjob.local.pod.storage.volumes import can_mount

    source, target = plain.folder / "source", plain.folder / "target"
    source.mkdir()
    target.mkdir()
    (source / "program.py").write_text("import os; print(os.listdir('.'), os.access('.', os.W_OK))")
    mounts = (Mount(str(source), str(target), True),)
    if not can_mount(mounts):
        pytest.skip("this user may not make mounts of its own")
    fresh = plain.run(PYTHON, "program.py", cwd=str(target), mounts=mounts)
    assert warm.run(PYTHON, "program.py", cwd=str(target), mounts=mounts) == fresh
    assert fresh.code == 0
    assert list(target.iterdir()) == []


def test_a_signal_to_the_group_reaches_the_rank_and_its_children(warm: Starter) -> None:
    (warm.folder / "program.py").write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print(child.pid, flush=True)\n"
        "print(child.wait(), flush=True); time.sleep(600)"
    )
    running = warm.start(PYTHON, "program.py")
    running.line()
    running.child.signal_group(signal.SIGTERM)
    assert running.wait().code == -signal.SIGTERM


def test_a_missing_working_directory_is_a_start_failure_in_both_ways(
    plain: Starter, warm: Starter, tmp_path: Path
) -> None:
    from vcjob.local.pod.launch import StartFailure

    sentences = []
    for starter in (plain, warm):
        with pytest.raises(StartFailure) as failure:
            starter.run(PYTHON, "x.py", cwd=str(tmp_path / "nowhere"))
        sentences.append(failure.value.message)
    assert sentences[0] == sentences[1]
