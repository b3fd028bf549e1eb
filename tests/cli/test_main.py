"""The command as a whole: help, start-up, pipes, interrupts, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest

from tests.cli.conftest import GUIDE, Vcjob
from vcjob import InvalidJob, UserError, WaitTimeout, __version__
from vcjob.cli import main as main_module
from vcjob.cli.main import VERBS
from vcjob.spec.problem import Problem

COMMAND = [sys.executable, "-c", "import sys; from vcjob.cli.main import main; sys.exit(main())"]


def test_help_names_every_verb_and_what_it_does(vcjob: Vcjob) -> None:
    for flag in ("--help", "-h"):
        result = vcjob(flag)
        assert result.code == 0
        for verb, (_, text) in VERBS.items():
            assert f"  {verb}" in result.out
            assert text.split(":")[0][:40] in result.out


def test_without_arguments_the_help_is_shown_as_a_mistake(vcjob: Vcjob) -> None:
    result = vcjob()
    assert (result.code, result.out) == (2, "")
    assert "Verbs:" in result.err


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_a_help_of_its_own(vcjob: Vcjob, verb: str) -> None:
    result = vcjob(verb, "--help")
    assert result.code == 0
    assert f"Usage: vcjob {verb}" in result.out


def test_the_version(vcjob: Vcjob) -> None:
    assert vcjob("--version") == (0, f"vcjob, version {__version__}\n", "")


def test_a_mistyped_verb_is_answered_with_the_nearest(vcjob: Vcjob) -> None:
    result = vcjob("vaildate", GUIDE)
    assert result == (
        2,
        "",
        "error: unknown verb 'vaildate'; did you mean 'validate'?\nhint: see `vcjob --help`\n",
    )
    assert vcjob("zzz").err == "error: unknown verb 'zzz'\nhint: see `vcjob --help`\n"
    assert vcjob("--zzz").err.startswith("error: No such option '--zzz'")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["ps"], "list"),
        (["ls"], "list"),
        (["get", "jobs"], "list"),
        (["describe", "job", "train"], "status"),
        (["apply", "-f", "job.yaml"], "run"),
        (["cancel", "train"], "stop"),
        (["job", "run"], "run"),
        (["job", "lgos"], "logs"),
        (["help"], "--help"),
        (["version"], "--version"),
    ],
)
def test_a_verb_of_another_tool_is_answered_with_the_one_that_does_the_same(
    vcjob: Vcjob, words: list[str], meant: str
) -> None:
    result = vcjob(*words)
    assert result.code == 2
    assert result.err.startswith(f"error: unknown verb {words[0]!r}; did you mean {meant!r}?\n")


@pytest.mark.parametrize("name", ["train.py", "job.yaml", "job"])
def test_a_file_without_a_verb_is_answered_with_run(
    vcjob: Vcjob, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    result = vcjob(name)
    assert result.code == 2
    assert f"hint: run it with `vcjob run {name}`" in result.err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["status", "a", "b"], "unexpected argument 'b'", "`vcjob status` takes one JOB; see"),
        (["list", "train"], "unexpected argument 'train'", "`vcjob list` takes options only; see"),
        (["ui", "--port", "foo"], "Invalid value for '--port': 'foo' is not a whole number.", "see"),
        (
            ["delete", "train", "--finished"],
            "--finished deletes all jobs that are over",
            "leave one of them out",
        ),
        (["--on", "cluster", "list"], "No such option '--on'.", "options follow the verb; see"),
        (["delete"], "name one job, or use --finished", "see"),
        (["top", "x", "--interval", "nan"], "it must be from 0.1 to 60", "see"),
        (["validate", "-f", "a.yaml"], "No such option '-f'.", "`vcjob validate a.yaml`"),
        (["status", "-N", "a"], "No such option '-N'.", "give the job without `-N`: `vcjob status a`"),
        (["delete", "-N", "a"], "No such option '-N'.", "`vcjob delete a`"),
        (["logs", "x", "–-rank", "1"], "'–-rank' begins with a typographic dash", "write `--rank`"),
        (["logs", "x", "—f"], "'—f' begins with a typographic dash", "write `-f`"),
        (["logs", "x", "-since", "5m"], "No such option '-since'.", "did you mean `--since`?"),
    ],
)
def test_a_usage_error_is_in_plain_words(vcjob: Vcjob, words: list[str], message: str, hint: str) -> None:
    error, advice = vcjob(*words).err.splitlines()
    assert message in error and advice.startswith("hint: ") and hint in advice


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["zzz"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    heavy = {
        "yaml",
        "msgspec",
        "jsonschema_rs",
        "rich",
        "aiohttp",
        "vcjob.sdk.loading",
        "vcjob.plan.plan",
        "asyncio",
    }
    code = f"import sys; from vcjob.cli.main import main; main({arguments!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.isdisjoint(done.stdout.split("\n")[-2].split())


def test_the_package_loads_nothing_until_a_name_is_used() -> None:
    code = "import vcjob, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"yaml", "msgspec", "jsonschema_rs", "click", "vcjob.sdk"}.isdisjoint(done.stdout.split())


def failing(failure: BaseException) -> click.Command:
    @click.command("fail")
    def command() -> None:
        raise failure

    return command


@pytest.mark.parametrize(
    ("failure", "code", "shown"),
    [
        (UserError("it is wrong", hint="do this"), 2, "error: it is wrong\nhint: do this\n"),
        (WaitTimeout("too late"), 124, "error: too late\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        (click.Abort(), 130, "\ninterrupted\n"),
        (
            InvalidJob([Problem(severity="error", where=("spec",), message="m", hint="h")]),
            2,
            "error: spec: m\n  hint: h\nerror: the Job is not valid (1 error)\n",
        ),
    ],
)
def test_errors_end_with_their_exit_code_and_no_traceback(
    failure: BaseException, code: int, shown: str, vcjob: Vcjob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(main_module.VERBS, "fail", ("tests.cli.failing", "Fail."))
    monkeypatch.setattr(
        main_module, "import_module", lambda name: type("M", (), {"command": failing(failure)})
    )
    assert vcjob("fail") == (code, "", shown)


def test_an_internal_error_has_its_own_exit_code_and_says_how_to_report_it(
    vcjob: Vcjob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(main_module.VERBS, "fail", ("tests.cli.failing", "Fail."))
    monkeypatch.setattr(
        main_module, "import_module", lambda name: type("M", (), {"command": failing(KeyError("x"))})
    )
    monkeypatch.delenv("VCJOB_DEBUG", raising=False)
    result = vcjob("fail")
    assert (result.code, result.out) == (70, "")
    assert result.err.startswith("error: internal error: KeyError: 'x'\nhint: ")
    assert "VCJOB_DEBUG=1" in result.err and "Traceback" not in result.err
    monkeypatch.setenv("VCJOB_DEBUG", "1")
    assert "Traceback" in vcjob("fail").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("status", "-o", "json"), "Missing argument 'JOB'."),
        (("list", "--zzz", "--output=json"), "No such option '--zzz'."),
        (
            ("logs", "x", "--tail", "many", "-ojson"),
            "Invalid value for '--tail': 'many' is not a whole number.",
        ),
    ],
)
def test_usage_errors_are_json_where_json_is_wanted(
    vcjob: Vcjob, words: tuple[str, ...], message: str
) -> None:
    result = vcjob(*words)
    assert (result.code, result.out) == (2, "")
    error = json.loads(result.err)["error"]
    assert error["message"].startswith(message.rstrip("."))
    assert error["hint"] == f"see `vcjob {words[0]} --help`"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vcjob", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"vcjob, version {__version__}\n"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(Path(GUIDE).read_text().replace("replicas: 2", "replicas: 500"))
    with subprocess.Popen(
        [*COMMAND, "render", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(11) == b"apiVersion:"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_verdict_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(Path(GUIDE).read_text())
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "validate", str(file)], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(("closed", "shown"), [(">&-", ""), ("2>&-", "job.yaml: valid\n")])
def test_a_closed_stream_is_as_good_as_one_that_nobody_reads(tmp_path: Path, closed: str, shown: str) -> None:
    (tmp_path / "job.yaml").write_text(Path(GUIDE).read_text())
    line = f'"$@" validate job.yaml {closed}'
    done = subprocess.run(["sh", "-c", line, "sh", *COMMAND], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


@pytest.mark.parametrize(
    "words", [("--help",), ("render", "job.yaml"), ("validate", "job.yaml", "-o", "json")]
)
def test_output_that_cannot_be_written_is_an_error_of_this_machine(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "job.yaml").write_text(Path(GUIDE).read_text())
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    assert done.returncode == 3
    message = "the output cannot be written: No space left on device"
    if "json" in words:
        assert json.loads(done.stderr)["error"]["message"] == message
    else:
        assert done.stderr == f"error: {message}\n"


def test_a_closed_standard_input_has_no_job() -> None:
    line = '"$@" validate - <&-'
    done = subprocess.run(["sh", "-c", line, "sh", *COMMAND], capture_output=True, text=True)
    assert done.returncode == 2 and "the file contains no Job" in done.stdout


def test_output_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(Path(GUIDE).read_text().replace("/home", "/训练"), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for output in ("yaml", "json"):
        done = subprocess.run(
            [*COMMAND, "render", str(file), "-o", output], capture_output=True, env=environment
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert "/训练".encode() in done.stdout


def test_a_file_name_may_be_any_bytes(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.yaml"
    missing = subprocess.run(
        [*map(os.fsencode, COMMAND), b"validate", name, b"-o", b"json"], capture_output=True
    )
    assert missing.returncode == 2
    assert os.fsencode(json.loads(missing.stdout)["problems"][0]["file"]) == name
    with open(name, "w") as file:
        file.write(Path(GUIDE).read_text())
    found = subprocess.run([*map(os.fsencode, COMMAND), b"validate", name], capture_output=True)
    assert (found.returncode, found.stdout) == (0, name + b": valid\n")


def test_an_interrupt_ends_with_130_and_no_traceback() -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal(2, signal.default_int_handler); {COMMAND[2]}",
            "validate",
            "-",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"a" * 100_000)  # more than a pipe holds: once written, the reader is at work
        process.stdin.flush()
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            # A signal just before a read is seen only after it; then a person presses the key again.
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
        assert process.stderr.read() == b"\ninterrupted\n"
    assert process.returncode == 130
