"""Tracebacks in a rank's output. The texts are recordings of torch 2.15 and CPython 3.11."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.diagnosis.text.frames import Place
from vcjob.diagnosis.text.torchrun import of_first_worker, torchrun_root_cause
from vcjob.diagnosis.text.tracebacks import last_traceback, reason_line, tracebacks

PREFIXED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/me/train.py", line 41, in <module>
[rank1]:     main()
[rank1]:   File "/home/me/train.py", line 30, in main
[rank1]:     dist.all_reduce(x)
[rank1]:   File "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper
[rank1]:     return func(*args, **kwargs)
[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3456
""".splitlines()

NCCL = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/me/train.py", line 5, in <module>
[rank0]:     dist.all_reduce(t)
[rank0]:   File "/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 3068, in all_reduce
[rank0]:     work = group.allreduce([tensor], opts)
[rank0]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:93, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9
[rank0]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
[rank0]: Last error:
[rank0]: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60
[rank0]:[W1116 11:55:18.719312908 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. (function operator())
""".splitlines()

CHAINED = """\
Traceback (most recent call last):
  File "data.py", line 3, in load
    return json.loads(text)
  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode
    obj, end = self.scan_once(s, idx)
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    load()
ValueError: the file is broken:
  line one of the details
  line two of the details
""".splitlines()

TORCHRUN = """\
Traceback (most recent call last):
  File "/app/train.py", line 7, in <module>
    raise KeyError("label")
KeyError: 'label'
E1116 09:00:00.000000 812 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 815)
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/app/train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_09:00:00
  host      : node
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 815)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
""".splitlines()


def test_the_prefix_of_torch_is_taken_off() -> None:
    found = last_traceback(PREFIXED)
    assert found is not None
    assert found.exception.startswith("RuntimeError: [../third_party/gloo")
    assert found.in_distributed


def test_the_frame_in_the_users_own_code_is_reported() -> None:
    found = last_traceback(PREFIXED)
    assert found is not None and str(found.own_frame) == "/home/me/train.py:30 in main"


def test_an_exception_of_many_lines_is_named_by_its_first_and_what_follows_its_colon() -> None:
    found = last_traceback(CHAINED)
    assert found is not None
    assert found.exception == "ValueError: the file is broken: line one of the details"
    assert found.more == ("  line two of the details",)
    assert [each.type for each in tracebacks(CHAINED)] == ["JSONDecodeError", "ValueError"]


@pytest.mark.parametrize(
    ("message", "exception"),
    [
        ("RuntimeError: \n\n        An attempt has been made to start a new process before the\n        current process",
         "RuntimeError: An attempt has been made to start a new process before the"),
        ("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Failed to find C compiler.\n\n",
         "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised: RuntimeError: Failed to find C compiler."),
        ("ValueError: a:\nb:\nc:\nd:", "ValueError: a: b: c:"),
        ("ValueError: a:\n\nsaving the state", "ValueError: a:"),
        ("AssertionError\n\nsaving the state", "AssertionError"),
    ],
)  # fmt: skip
def test_a_message_whose_first_line_says_nothing_is_read_on(message: str, exception: str) -> None:
    found = last_traceback([*CHAINED[:3], *message.split("\n")])
    assert found is not None and found.exception == exception


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_an_error_of_a_package_that_communication_calls_is_not_of_communication(folder: str) -> None:
    inner = f'  File "/usr/local/lib/python3.11/{folder}/model/layers.py", line 9, in forward'
    found = last_traceback(
        [*(line.removeprefix("[rank1]: ") for line in PREFIXED[:-1]), inner, "ValueError: bad shape"]
    )
    assert found is not None and not found.in_distributed


def test_the_library_is_not_the_users_code() -> None:
    first = tracebacks(CHAINED)[0]
    assert str(first.own_frame) == "data.py:3 in load"


INSTALLED = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "<frozen runpy>", line 88, in _run_code
  File "/venv/lib/python3.11/site-packages/trainer/__main__.py", line 3, in <module>
    load("")
  File "/venv/lib/python3.11/site-packages/trainer/recipe.py", line 5, in load
    return json.loads(text)
           ^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
""".splitlines()


def test_where_all_code_is_installed_the_last_frame_outside_the_standard_library_is_reported() -> None:
    found = last_traceback(INSTALLED)
    assert found is not None
    assert str(found.own_frame) == "/venv/lib/python3.11/site-packages/trainer/recipe.py:5 in load"
    debian = last_traceback([line.replace("site-packages", "dist-packages") for line in INSTALLED])
    assert debian is not None and str(debian.own_frame).endswith("dist-packages/trainer/recipe.py:5 in load")
    only_inner = last_traceback([INSTALLED[0], *INSTALLED[8:]])
    assert only_inner is not None and str(only_inner.own_frame).endswith("decoder.py:355 in raw_decode")


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("/venv/bin/torchrun", "elastic/rendezvous/dynamic_rendezvous.py:630 in run"),
        ("/app/bin/train", "/app/bin/train:8 in <module>"),
    ],
)
def test_an_error_of_torchrun_itself_is_placed_where_torch_raised_it(script: str, place: str) -> None:
    torch = "/venv/lib/python3.11/site-packages/torch/distributed"
    found = last_traceback([
        "Traceback (most recent call last):",
        f'  File "{script}", line 8, in <module>',
        f'  File "{torch}/run.py", line 936, in main',
        f'  File "{torch}/elastic/rendezvous/dynamic_rendezvous.py", line 630, in run',
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    ])  # fmt: skip
    assert found is not None and str(found.own_frame).endswith(place)


@pytest.mark.parametrize(
    ("file", "is_library"),
    [
        ("/home/me/bin/train.py", False),
        ("/app/bin/steps/train.py", False),
        ("/workspace/lib/python_src/train.py", False),
        ("/workspace/lib/python3/train.py", False),
        ("train.py", False),
        ("/opt/conda/bin/accelerate", True),
        ("/venv/bin/torchrun", True),
        ("/usr/lib64/python3.9/runpy.py", True),
        ("/usr/lib/python3/dist-packages/numpy/x.py", True),
        ("/opt/conda/lib/python3.13t/json/decoder.py", True),
        ("<frozen os>", True),
    ],
)
def test_whose_code_a_file_is(file: str, is_library: bool) -> None:
    assert Place(file, 1).is_library is is_library


def test_the_table_of_torchrun_names_the_rank_and_is_no_exception_of_the_program() -> None:
    assert torchrun_root_cause(TORCHRUN) == (3, 1, 1)
    assert [each.type for each in tracebacks(TORCHRUN)] == ["KeyError", "ChildFailedError"]
    assert torchrun_root_cause(PREFIXED) is None


@given(st.lists(st.text(max_size=60), max_size=30))
def test_any_output_is_accepted(lines: list[str]) -> None:
    for found in tracebacks(lines):
        assert found.exception


@given(st.lists(st.text(alphabet=" abc\n:", max_size=30), max_size=20))
def test_text_around_a_traceback_does_not_change_it(noise: list[str]) -> None:
    clean = [line.replace("\n", " ") for line in noise]
    assert last_traceback([*clean, "", *PREFIXED]) == last_traceback(PREFIXED)


def test_the_detail_of_an_nccl_error_is_its_reason() -> None:
    """Recorded on a machine with one H200: the first line of the message says only where it was raised."""
    assert reason_line(NCCL) == (
        "torch.distributed.DistBackendError: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60"
    )


def test_a_warning_after_the_last_line_is_not_the_reason() -> None:
    warning = NCCL[-1]
    assert reason_line(["cannot open the data set", warning, "-----"]) == "cannot open the data set"
    assert reason_line([warning]).startswith("[W1116"), "better than nothing"
    assert reason_line([]) == ""


def test_below_torchrun_the_worker_that_failed_first_gives_the_reason() -> None:
    """The other worker of the pod raises its error later, when the first one has closed the connection."""
    table = [
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 3 (local_rank: 1)",
        "  exitcode  : 1 (pid: 7)",
    ]
    workers = [
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "/app/train.py", line 57, in main',
        "[rank3]: RuntimeError: bad batch",
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "/app/train.py", line 62, in main',
        "[rank2]: RuntimeError: Connection closed by peer [127.0.0.1]:42126.",
    ]
    assert reason_line(of_first_worker([*workers, *table])) == "RuntimeError: bad batch"
    assert of_first_worker(workers) == workers, "without torchrun's table, all lines"
    launcher = [
        "Traceback (most recent call last):",
        '  File "/venv/bin/torchrun", line 8, in <module>',
        "ChildFailedError:",
    ]
    exited = [*workers[3:], "no shards left", *launcher, *table]
    assert of_first_worker(exited) == ("no shards left",), "the worker raised nothing"
    unmarked = [line.removeprefix("[rank3]: ") for line in workers[:3]]
    early = [*unmarked, *workers[3:], *launcher, *table]
    assert reason_line(of_first_worker(early)) == "RuntimeError: bad batch", "before it had a process group"
