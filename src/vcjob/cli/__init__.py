"""The command line.

While it loads there is nothing to end yet, and Ctrl-C ends the process as it ends any other tool, without a
traceback; `main` takes over from there.
"""

import contextlib
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    with contextlib.suppress(ValueError):  # not the main thread: somebody else's program, and their choice
        signal.signal(signal.SIGINT, signal.SIG_DFL)
