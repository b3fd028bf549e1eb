"""The process that imports once and forks ranks.

It runs in the interpreter of the job, which need not have vcjob installed: nothing here imports anything but
the standard library and its neighbours.

::

    zygote ── forks ──▶ nest (one per rank: watches it, ends what it leaves behind) ── forks ──▶ rank

Only `main.py` is ever started; `vcjob.local.warm.spawn` does it.
"""
