"""The command line: one module per verb (its `command`), `arguments` (what verbs take) and `output` (what they print).

It uses the SDK only, except for the verbs that operate a cluster or this machine; an import contract lists those.

While it loads, Ctrl-C ends the process without a traceback; afterwards `main` handles it.
"""

import contextlib
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    with contextlib.suppress(ValueError):  # not the main thread: the program that imports us decides
        signal.signal(signal.SIGINT, signal.SIG_DFL)
