"""The process that imports once and forks ranks.

It runs in the interpreter of the job, which need not have vcjob installed: nothing here imports anything but
the standard library and the modules of this folder.

::

    zygote ── forks ──▶ rank parent (one per rank: watches it, ends what it leaves behind) ── forks ──▶ rank

Only `main.py` is ever started; `vcjob.local.warm.spawn` does it.
"""
