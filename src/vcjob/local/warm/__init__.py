"""Fast starts: one process imports torch and forks the ranks (`run --warm`, `vcjob warm start`).

::

    client.py       WarmLauncher: a Launcher that uses a zygote, or starts plainly and gives the reason
    command.py      which commands can be started by a fork
    environment.py  which variables a fork cannot take back, and which are a job's or a terminal's own
    spawn.py        starting a zygote of a run's own
    server.py       kept-warm zygotes: their folder, starting, asking, stopping
    zygote/         the process itself; standard library only, because it runs in the job's interpreter

docs/decisions/ has the record of what is safe here and what is not.
"""
