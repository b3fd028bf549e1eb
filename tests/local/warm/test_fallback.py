"""When a fork would not be the same as a fresh start, the plain way is taken and the reason is said once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.local.conftest import spawn_without_sessions
from tests.local.warm.conftest import PYTHON, Starter, environment
from vcjob.local.pod.launch import PlainLauncher
from vcjob.local.warm.client import WarmChild, WarmLauncher

Make = Callable[..., tuple[Starter, list[str]]]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A launcher with a zygote of its own that imports the given modules (their text is given too)."""
    made: list[WarmLauncher] = []

    def build(**modules: str) -> tuple[Starter, list[str]]:
        library = tmp_path / "library"
        library.mkdir(exist_ok=True)
        for name, text in modules.items():
            (library / f"{name}.py").write_text(text)
        said: list[str] = []
        launcher = WarmLauncher(
            PlainLauncher(), said.append, folder=str(tmp_path / "warm"), imports=tuple(modules)
        )
        made.append(launcher)
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        return Starter(launcher, folder), said

    yield build
    for launcher in made:
        launcher.close()


def library_env(starter: Starter, **more: str) -> dict[str, str]:
    return environment(PYTHONPATH=str(starter.folder.parent / "library"), **more)


HELLO = "import sys; print('hello', 'thing' in sys.modules)"


def test_modules_are_imported_before_the_program_starts(make: Make) -> None:
    starter, said = make(thing="import os\nwhere, pid = os.getcwd(), os.getpid()")
    (starter.folder / "p.py").write_text(
        "import sys, os, thing; print(thing.where, thing.pid != os.getpid())"
    )
    outcome = starter.run(PYTHON, "p.py", env=library_env(starter))
    assert outcome.out == f"{starter.folder.parent}/warm/empty True\n"
    assert said == []


def test_a_python_that_was_built_for_older_systems_forks_ranks(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of conda, and most of uv."""
    monkeypatch.setattr(os, "posix_spawn", spawn_without_sessions)
    for module, name in ((os, "memfd_create"), (os, "pidfd_open"), (signal, "pidfd_send_signal")):
        monkeypatch.delattr(module, name)
    starter, said = make(thing="")
    (starter.folder / "p.py").write_text(HELLO)
    assert starter.run(PYTHON, "p.py", env=library_env(starter)).out == "hello True\n"
    assert said == []


def test_a_module_that_starts_a_thread_forbids_the_fork(make: Make) -> None:
    starter, said = make(
        thing="import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    (starter.folder / "p.py").write_text(HELLO)
    for _ in range(2):
        running = starter.start(PYTHON, "p.py", env=library_env(starter))
        assert not isinstance(running.child, WarmChild)
        assert running.wait().out == "hello False\n"
    assert len(said) == 1
    assert "1 thread(s) of its own" in said[0]


def test_a_thread_that_ends_before_every_fork_is_none(make: Make) -> None:
    """As OpenBLAS does it: threads from the moment it is loaded, none when it is forked."""
    starter, said = make(
        thing="import os, threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()\n"
        "os.register_at_fork(before=lambda: (stop.set(), t.join()))"
    )
    (starter.folder / "p.py").write_text(HELLO)
    assert starter.run(PYTHON, "p.py", env=library_env(starter)).out == "hello True\n"
    assert said == []


def test_initialised_cuda_forbids_the_fork(make: Make) -> None:
    starter, said = make(torch="class cuda:\n    is_initialized = staticmethod(lambda: True)")
    (starter.folder / "p.py").write_text(HELLO)
    assert starter.run(PYTHON, "p.py", env=library_env(starter)).code == 0
    assert "initialised CUDA" in said[0]


def test_a_module_that_cannot_be_imported_is_left_to_the_plain_way(make: Make) -> None:
    starter, said = make(thing="raise RuntimeError('broken')")
    (starter.folder / "p.py").write_text("import thing")
    outcome = starter.run(PYTHON, "p.py", env=library_env(starter))
    assert outcome.code == 1
    assert "RuntimeError: broken" in outcome.err
    assert said == ["not started warm: importing thing failed: RuntimeError: broken"]


def test_a_module_that_is_not_installed_is_no_matter(tmp_path: Path) -> None:
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=str(tmp_path / "warm"), imports=("no_such_module_here",))
    (tmp_path / "p.py").write_text("print('hello')")
    starter = Starter(launcher, tmp_path)
    assert isinstance(starter.start(PYTHON, "p.py").child, WarmChild)
    assert said == []
    launcher.close()


def test_a_zygote_that_dies_is_replaced_by_the_plain_way(make: Make) -> None:
    starter, said = make(thing="import os, sys\nsys.stderr.write('no more\\n')\nos._exit(1)")
    (starter.folder / "p.py").write_text("print('hello')")
    assert starter.run(PYTHON, "p.py", env=library_env(starter)).out == "hello\n"
    assert said == ["not started warm: the process that should have forked it died (no more)"]


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "LD_BIND_NOW", "PYTHONHASHSEED", "TORCH_X"]
)
def test_a_variable_that_acts_at_start_needs_another_zygote(make: Make, name: str) -> None:
    starter, said = make(thing="import os\npid = os.getppid()")
    (starter.folder / "p.py").write_text(f"import os, thing; print(os.environ.get({name!r}))")
    values = ["7", "8", "7"]
    outcomes = [starter.start(PYTHON, "p.py", env=library_env(starter, **{name: value})) for value in values]
    assert [outcome.wait().out for outcome in outcomes] == [f"{value}\n" for value in values]
    assert len(starter.launcher._zygotes) == 2  # type: ignore[attr-defined]
    assert said == []


def test_a_variable_that_was_read_at_import_must_be_the_same(make: Make) -> None:
    starter, said = make(thing="import os\nlevel = os.environ.get('LEVEL', 'none')\n'OTHER' in os.environ")
    (starter.folder / "p.py").write_text("import os, thing; print(thing.level, os.environ['FREE'])")
    first = starter.start(PYTHON, "p.py", env=library_env(starter, LEVEL="1", FREE="a"))
    second = starter.start(PYTHON, "p.py", env=library_env(starter, LEVEL="1", FREE="b"))
    third = starter.start(PYTHON, "p.py", env=library_env(starter, LEVEL="2", FREE="c"))
    fourth = starter.start(PYTHON, "p.py", env=library_env(starter, LEVEL="1", OTHER="", FREE="d"))
    ways = [isinstance(running.child, WarmChild) for running in (first, second, third, fourth)]
    assert [running.wait().out for running in (first, second, third, fourth)] == [
        "1 a\n",
        "1 b\n",
        "2 c\n",
        "1 d\n",
    ]
    assert ways == [True, True, False, False]
    assert [sentence.split()[3] for sentence in said] == ["LEVEL", "OTHER"]


def test_a_module_that_reads_its_rank_at_import_is_not_imported_beforehand(make: Make) -> None:
    starter, said = make(thing="import os\nrank = os.environ.get('RANK')")
    (starter.folder / "p.py").write_text("import thing; print(thing.rank)")
    outcomes = [starter.run(PYTHON, "p.py", env=library_env(starter, RANK=str(rank))) for rank in range(2)]
    assert [outcome.out for outcome in outcomes] == ["0\n", "1\n"]
    assert said == ["not started warm: RANK differs from its value at import time, when it takes effect"]


def test_a_file_next_to_the_program_is_not_hidden_by_an_imported_module(make: Make) -> None:
    starter, said = make(thing="origin = 'library'")
    (starter.folder / "thing.py").write_text("origin = 'beside'")
    (starter.folder / "p.py").write_text("import thing; print(thing.origin)")
    assert starter.run(PYTHON, "p.py", env=library_env(starter)).out == "beside\n"
    assert starter.run(PYTHON, "-m", "p", env=library_env(starter)).out == "beside\n"
    assert len(said) == 1
    assert "thing.py" in said[0]


def test_nothing_is_imported_from_the_folder_of_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    starter, said = make(thing="import colorsys; origin = colorsys.__file__")
    (starter.folder / "colorsys.py").write_text("raise RuntimeError('taken from the folder of the run')")
    monkeypatch.chdir(starter.folder)
    program = starter.folder.parent / "elsewhere" / "p.py"
    program.parent.mkdir()
    program.write_text("import thing; print(thing.origin)")
    outcome = starter.run(PYTHON, str(program), env=library_env(starter))
    assert os.path.dirname(outcome.out) != str(starter.folder)
    assert outcome.code == 0
    assert said == []


@pytest.mark.parametrize(
    "line",
    [
        "os.environ['OMP_NUM_THREADS'] = '1'",
        'os.environ.setdefault("MKL_NUM_THREADS", "1")',
        "os.putenv('LD_X', '1')",
        "os.environ.update({'A': '1', 'OMP_NUM_THREADS': '1'})",
        "os.environ.update(OMP_NUM_THREADS='1')",
        "os.environ |= {'OMP_NUM_THREADS': '1'}",
        "os.environ |= dict(OMP_NUM_THREADS='1')",
        "env = os.environ\nenv['OMP_NUM_THREADS'] = '1'",
        "from os import environ\nenviron['OMP_NUM_THREADS'] = '1'",
        "os.environb[b'OMP_NUM_THREADS'] = b'1'",
        "for name in ('OMP_NUM_THREADS',):\n    os.environ[name] = '1'",
        "chosen = {'OMP_NUM_THREADS': '1'}\nos.environ.update(chosen)",
    ],
)
def test_a_program_that_sets_such_a_variable_is_started_plainly(
    warm: Starter, said: list[str], line: str
) -> None:
    (warm.folder / "p.py").write_text(f"import os\n{line}\nprint('hello')")
    running = warm.start(PYTHON, "p.py")
    assert not isinstance(running.child, WarmChild)
    assert running.wait().out == "hello\n"
    assert "p.py sets" in said[0]


@pytest.mark.parametrize(
    ("program", "files"),
    [
        ("import helper", {"helper.py": ""}),
        ("import json, helper as h", {"helper.py": ""}),
        ("from package import helper", {"package/__init__.py": None, "package/helper.py": ""}),
        ("from package.helper import x", {"package/__init__.py": None, "package/helper.py": ""}),
        ("import package.helper", {"package/__init__.py": "", "package/helper.py": None}),
        ("from package import (\n    a,\n    helper)", {"package/__init__.py": "a = 1", "package/helper.py": ""}),
        ("import first", {"first.py": "from package import second", "package/__init__.py": "from . import second",
                          "package/second.py": "from .third import x", "package/third.py": ""}),
        ("def later():\n    import helper\nlater()", {"helper.py": ""}),
    ],
)  # fmt: skip
def test_a_program_whose_module_sets_such_a_variable_is_started_plainly(
    warm: Starter, plain: Starter, said: list[str], program: str, files: dict[str, str | None]
) -> None:
    """As in a fresh start: the variable acts, because it is set before the library is imported."""
    for name, before in files.items():
        (warm.folder / name).parent.mkdir(exist_ok=True)
        sets = (
            ""
            if before is None or before
            else "import os\nos.environ.update({'OMP_NUM_THREADS': '1'})\nx = 1\n"
        )
        (warm.folder / name).write_text(f"{before or ''}\n{sets}")
    (warm.folder / "p.py").write_text(f"{program}\nimport os\nprint(os.environ['OMP_NUM_THREADS'])")
    running = warm.start(PYTHON, "p.py", threads=2)
    assert not isinstance(running.child, WarmChild)
    assert running.wait() == plain.run(PYTHON, "p.py", threads=2)
    assert "sets OMP_NUM_THREADS" in said[0]


def test_a_module_that_is_run_with_m_is_read_too(warm: Starter, said: list[str]) -> None:
    (warm.folder / "package").mkdir()
    (warm.folder / "package" / "__main__.py").write_text("from . import helper\nprint('hello')")
    (warm.folder / "package" / "helper.py").write_text("import os\nos.environ.update(TORCH_X='1')")
    running = warm.start(PYTHON, "-m", "package")
    assert not isinstance(running.child, WarmChild) and running.wait().out == "hello\n"
    assert "helper.py sets TORCH_X" in said[0]


def test_reading_the_modules_of_a_program_leaves_nothing_behind(warm: Starter, said: list[str]) -> None:
    """Our own look at the program imports modules; the program must find its own of the same name."""
    (warm.folder / "ast.py").write_text("mine = True")
    (warm.folder / "helper.py").write_text(
        "import os\nos.environ['MASTER_ADDR'] = 'x'\nos.environ.update(A='1')"
    )
    (warm.folder / "p.py").write_text("import helper, ast\nprint(ast.mine)")
    running = warm.start(PYTHON, "p.py")
    assert isinstance(running.child, WarmChild), said
    assert running.wait().out == "True\n"


@pytest.mark.parametrize(
    "line", ["os.environ['HOME']", "os.environ['HOME'] == ''", "os.environ.get('OMP_NUM_THREADS')"]
)
def test_a_program_that_only_reads_such_a_variable_is_forked(
    warm: Starter, said: list[str], line: str
) -> None:
    (warm.folder / "p.py").write_text(f"import os\n{line}\nprint('hello')")
    running = warm.start(PYTHON, "p.py")
    assert isinstance(running.child, WarmChild)
    assert running.wait().out == "hello\n"
    assert said == []


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "echo hello"],
        [PYTHON, "-c", "print('hello')"],
        [PYTHON, "-x", "p.py"],
        ["env", PYTHON, "p.py"],
    ],
    ids=lambda argv: os.path.basename(argv[0]) + argv[1],
)
def test_a_command_that_is_not_understood_is_started_the_plain_way(warm: Starter, argv: list[str]) -> None:
    (warm.folder / "p.py").write_text("#!\nprint('hello')")
    running = warm.start(*argv)
    assert not isinstance(running.child, WarmChild)
    assert running.wait().out == "hello\n"


def test_what_is_not_understood_is_said_when_a_run_is_prepared(tmp_path: Path) -> None:
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=str(tmp_path / "warm"), imports=())
    for _ in range(2):
        launcher.prepare(["bash", "train.sh"], environment(), str(tmp_path))
    assert said == ["not started warm: bash is not Python"]


def test_a_changed_module_makes_the_zygote_stale(make: Make) -> None:
    starter, said = make(thing="value = 1")
    (starter.folder / "p.py").write_text("import thing; print(thing.value)")
    env = library_env(starter)
    assert starter.run(PYTHON, "p.py", env=env).out == "1\n"
    (starter.folder.parent / "library" / "thing.py").write_text("value = 22")
    time.sleep(0.25)  # the files are checked five times a second, however many ranks start
    running = starter.start(PYTHON, "p.py", env=env)
    assert not isinstance(running.child, WarmChild)
    assert running.wait().out == "22\n"
    assert "thing.py has changed" in said[0]


def test_a_new_file_that_goes_before_a_loaded_one_makes_the_zygote_stale(make: Make) -> None:
    starter, said = make(thing="import colorsys")
    (starter.folder / "p.py").write_text("import colorsys; print(colorsys.__file__)")
    env = library_env(starter)
    starter.run(PYTHON, "p.py", env=env)
    (starter.folder.parent / "library" / "colorsys.py").touch()
    time.sleep(0.25)
    assert "library" in starter.run(PYTHON, "p.py", env=env).out
    assert "PYTHONPATH has changed" in said[0]


def test_another_nice_value_is_not_served(warm: Starter, said: list[str]) -> None:
    """What a rank inherits must come from the run that asks, not from the zygote."""
    (warm.folder / "p.py").write_text("import os; print(os.nice(0))")
    warm.run(PYTHON, "p.py")
    pid = os.fork()
    if pid == 0:
        os.nice(1)
        try:
            same = warm.run(PYTHON, "p.py").out == f"{os.nice(0)}\n" and "nice value" in said[0]
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_relative_python_path_is_not_served(warm: Starter) -> None:
    (warm.folder / "p.py").write_text("import sys; print(sys.path[1])")
    running = warm.start(PYTHON, "p.py", env=environment(PYTHONPATH="src"))
    assert not isinstance(running.child, WarmChild)
    assert running.wait().out.startswith(str(warm.folder))


def test_an_interpreter_without_vcjob_is_served_too(tmp_path: Path) -> None:
    """The zygote needs nothing but the standard library: the job's venv is not ours."""
    import venv

    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=str(tmp_path / "warm"), imports=("json",))
    (tmp_path / "p.py").write_text("import sys, importlib.util as u; print(sys.prefix, u.find_spec('vcjob'))")
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    running = Starter(launcher, tmp_path).start(python, "p.py", env=env)
    assert isinstance(running.child, WarmChild)
    assert running.wait().out == f"{tmp_path / 'venv'} None\n"
    assert said == []
    assert python != sys.executable
    launcher.close()


@pytest.mark.parametrize("version", ["3.8", "3.10"])
def test_an_interpreter_that_is_too_old_is_left_to_the_plain_way(tmp_path: Path, version: str) -> None:
    pattern = Path.home() / ".pyenv" / "versions"
    found = sorted(pattern.glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} on this machine")
    said: list[str] = []
    launcher = WarmLauncher(say=said.append, folder=str(tmp_path / "warm"), imports=())
    (tmp_path / "p.py").write_text("print('hello')")
    assert Starter(launcher, tmp_path).run(str(found[0]), "p.py").out == "hello\n"
    assert said == [
        "not started warm: the process that should have forked it died (it needs Python 3.11 or later)"
    ]
    launcher.close()
