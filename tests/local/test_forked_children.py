"""Children that tests fork: one that fails must not go on as a second run of the tests."""

from __future__ import annotations

import os

from conftest import FORKED_CHILD_FAILED


def test_a_forked_child_that_fails_runs_no_other_test() -> None:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise RuntimeError("in the child")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == FORKED_CHILD_FAILED
