"""Jobs of small programs, run for real, as in the tests of the local backend."""

from tests.local.conftest import finish, nothing_runs_on, start

__all__ = ["finish", "nothing_runs_on", "start"]
