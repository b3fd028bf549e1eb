"""`Handle.show()`: the page of a job inside a notebook.

The page is the exported file in a sandboxed frame: no script runs in it, and nothing in a log can reach the notebook.
Without a server there is no address and no token that a saved notebook could reveal.
"""

from __future__ import annotations

import time
from html import escape

from vcjob.errors import UserError
from vcjob.sdk.handle import Handle
from vcjob.ui.diagnosing import Diagnosis
from vcjob.ui.export import export

#: Log lines of each rank: a notebook keeps its outputs in its file.
TAIL = 200
_PAUSE_SECONDS = 2.0


def show(job: Handle, *, follow: bool, height: int) -> None:
    """Display the job; with `follow`, again and again until it is over. UserError outside of IPython."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        raise _no_notebook() from None
    if get_ipython() is None:
        raise _no_notebook()
    done = job.done  # before the page is read, so that the last page shows the end
    diagnosis = Diagnosis()
    shown = display(HTML(frame(job, height, diagnosis)), display_id=True)
    while follow and not done:
        time.sleep(_PAUSE_SECONDS)
        done = job.done
        shown.update(HTML(frame(job, height, diagnosis)))


def frame(job: Handle, height: int, diagnosis: Diagnosis | None = None) -> str:
    """The frame's markup, with the whole page in an attribute."""
    page = escape(export(job, tail=TAIL, diagnosis=diagnosis), quote=True)
    return (
        f'<iframe sandbox="" srcdoc="{page}" title="vcjob: {escape(job.name, quote=True)}" '
        f'style="box-sizing:border-box;width:100%;height:{int(height)}px;border:1px solid #8884;border-radius:6px"></iframe>'
    )


def _no_notebook() -> UserError:
    return UserError(
        "show() needs a notebook (IPython)",
        hint="in a browser: `vcjob ui`; as a file: `vcjob ui JOB --export FILE`",
    )
