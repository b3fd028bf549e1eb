"""Tracebacks in a rank's output. The texts are recordings of torch 2.15 and CPython 3.11."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vcjob.diagnosis.traceback_text import last_traceback, torchrun_root_cause, tracebacks

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


def test_an_exception_of_many_lines_is_named_by_its_first() -> None:
    found = last_traceback(CHAINED)
    assert found is not None
    assert found.exception == "ValueError: the file is broken:"
    assert found.more == ("  line one of the details", "  line two of the details")
    assert [each.type for each in tracebacks(CHAINED)] == ["JSONDecodeError", "ValueError"]


def test_the_library_is_not_the_users_code() -> None:
    first = tracebacks(CHAINED)[0]
    assert str(first.own_frame) == "data.py:3 in load"


def test_the_table_of_torchrun_names_the_rank_and_is_no_exception_of_the_program() -> None:
    assert torchrun_root_cause(TORCHRUN) == (1, 1)
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
