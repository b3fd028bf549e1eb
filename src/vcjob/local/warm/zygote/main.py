"""Starts as `python main.py CONFIG`; returns from `serve` only in a rank, which then runs the user's program here.

The user's program runs at the top level of this file, so that it ends as every Python program ends: the
interpreter itself prints the traceback, waits for threads, runs atexit functions, flushes, and picks the exit code.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the interpreter is the job's, of any age; the plain way is taken
    sys.exit("it needs Python 3.11 or later")
_BASELINE = frozenset(sys.modules)  # what an interpreter has before it runs anything
if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
    # What -P does, without leaving a flag behind that the ranks would see. Nothing was imported from there.
    del sys.path[0]

import importlib  # noqa: E402 - nothing may be imported before the line above
import os  # noqa: E402 - nothing may be imported before the line above
import types  # noqa: E402 - nothing may be imported before the line above

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_package = types.ModuleType("_vcjob_warm")
_package.__path__ = [_FOLDER]
sys.modules["_vcjob_warm"] = _package

_rank = importlib.import_module("_vcjob_warm.server").serve(sys.argv[1], _BASELINE)
_run, _arguments, _done = importlib.import_module("_vcjob_warm.program").prepare(_rank)
del _rank, _package
for _name in [name for name in sys.modules if name.startswith("_vcjob_warm")]:
    del sys.modules[_name]

try:
    _run(*_arguments())
except SystemExit:
    raise
except BaseException as _problem:
    while _problem.__traceback__ and _problem.__traceback__.tb_frame.f_code.co_filename.startswith(_FOLDER):
        _problem.__traceback__ = _problem.__traceback__.tb_next  # without our own frames
    if _problem.__traceback__ is None:  # a file that cannot be compiled; nothing of it has run
        sys.excepthook(type(_problem), _problem, None)
        sys.exit(1)
    raise
finally:
    _done()
