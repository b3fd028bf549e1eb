"""The start of a supervisor's process: it detaches from its starter before it loads anything.

python -P -m vcjob.local.supervisor [warm]     (descriptor 4 is the socket over which it gets its run; see prestart.py)
"""

import os
import signal
import sys


def main() -> int:
    if os.getsid(0) != os.getpid():  # see `process.spawn_session`
        os.setsid()
    # The starter has blocked the signals that end a job: a request to end waits until the supervisor can carry it out.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of a terminal does not end the job
    if os.fork():
        os._exit(0)
    os.chdir("/")
    # Pipes of the shell that started us: a reader may wait for their end.
    os.closerange(5, os.sysconf("SC_OPEN_MAX"))
    zygote = None
    if "warm" in sys.argv[1:]:
        from vcjob.local.warm.prestart import prestart_zygote

        zygote = prestart_zygote()
    from vcjob.local.supervisor import supervisor
    from vcjob.local.supervisor.prestart import wait_for_run

    folder = wait_for_run()
    return 0 if folder is None else supervisor.main(folder, zygote)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # whoever waits for the lock need not wait for the interpreter to clean up
