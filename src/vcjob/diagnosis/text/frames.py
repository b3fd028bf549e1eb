"""Frames and tracebacks, as `reader` finds them in a rank's output.

`Traceback` knows which of its frames are the user's and who raised it; the rules ask for no more than that.
"""

from __future__ import annotations

import re

import msgspec

#: Code that is not the user's: installed packages, the standard library, generated code, and the scripts in `bin` that
#: packages install, whose names have no suffix.
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d\.\d|^<frozen |/bin/[^/.]{1,255}$")
#: Of these, what says nothing about who called it; a script of the user may also be in `bin`.
_INNER = re.compile(
    r"/(?:site|dist)-packages/torch/|/lib(?:64)?/python\d\.\d{1,2}t?/(?!(?:site|dist)-packages/)|^<frozen "
    r"|/bin/torchrun$"
)
#: Characters of a message that are searched; what went wrong stands above the frames of native code.
LONGEST_TEXT = 8000
#: What torchrun itself raises because a process of its own has failed or was ended.
LAUNCHER_ERRORS = ("ChildFailedError", "SignalException")
#: What `subprocess` raises; `accelerate launch` too.
_CHILD_ERROR = "CalledProcessError"
_LAUNCHER = re.compile(r"/accelerate/commands/|/torch/distributed/(?:launch|run)\.py$|/deepspeed/launcher/")
#: torch's communication itself; torch also loads checkpoints and starts processes below torch/distributed.
_COMMUNICATION = re.compile(
    r"/torch/distributed/(?:distributed_c10d|c10d_logger|rendezvous|_functional_collectives|utils|elastic/utils/store)\.py$"
    r"|/torch/distributed/(?:elastic/rendezvous|rpc|_symmetric_memory)/|/torch/nn/parallel/"
)
#: What communication calls. A package or a module of the model below it raises an error of its own.
_CALLED_BY_IT = re.compile(
    r"/torch/(?:_ops|_compile)\.py$|/torch/(?:utils|autograd|_dynamo)/|/torch/distributed/(?!checkpoint/)"
    r"|/lib(?:64)?/python\d\.\d{1,2}t?/(?!(?:site|dist)-packages/)|^<frozen "
)


class Place(msgspec.Struct, frozen=True):
    """A frame: where the program was.

    Found in the text of a traceback, or made from a frame of a stack.
    """

    file: str
    line: int
    function: str = ""
    #: The line of the program, where the traceback shows it.
    code: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where} in {self.function}" if self.function else where

    @property
    def is_library(self) -> bool:
        return _LIBRARY.search(self.file) is not None


class Traceback(msgspec.Struct, frozen=True):
    """One traceback: frames, outermost first; the exception's first line; further lines of its message.

    `uncaught`: torch's hook printed it, so it ended the program. `went_on`: what follows shows that the program handled
    it and went on. `child_signal`: the signal that ended the process, as its launcher says below it. `before`: the
    exception that led to this one; `is_caused`: this one was raised from it, not only while it was handled. `aside`: the
    last one that another thread or process had printed before, which may be why the program failed.
    """

    frames: tuple[Place, ...]
    exception: str
    more: tuple[str, ...] = ()
    uncaught: bool = False
    went_on: bool = False
    child_signal: int | None = None
    before: Traceback | None = None
    is_caused: bool = False
    aside: Traceback | None = None

    @property
    def type(self) -> str:
        return self.exception.partition(":")[0].rpartition(".")[2]

    @property
    def is_launcher(self) -> bool:
        """Whether a launcher raised it because a process that it started has failed."""
        if self.type == _CHILD_ERROR:
            return any(_LAUNCHER.search(frame.file) for frame in self.frames[-3:])
        return self.type in LAUNCHER_ERRORS

    @property
    def is_of_child(self) -> bool:
        """Whether it says that a program, which it started, has failed."""
        return self.type == _CHILD_ERROR

    @property
    def own_frame(self) -> Place | None:
        """The last frame in the user's own code, else in a package that is installed, else the innermost one."""
        return self.frames[self._own] if self.frames else None

    @property
    def in_distributed(self) -> bool:
        """Whether torch's communication raised it."""
        for frame in reversed(self.frames[self._own + 1 :]):
            if _COMMUNICATION.search(frame.file):
                return True
            if not _CALLED_BY_IT.search(frame.file):
                return False
        return False

    @property
    def _own(self) -> int:
        """The place of the own frame; -1 where all frames are of torch and the standard library."""
        return max(
            (place for place, frame in enumerate(self.frames) if not frame.is_library),
            default=max(
                (place for place, frame in enumerate(self.frames) if not _INNER.search(frame.file)),
                default=-1,
            ),
        )

    @property
    def chain(self) -> tuple[Traceback, ...]:
        """This one, the exception that led to it, and so on back to the first."""
        found = [self]
        while found[-1].before is not None:
            found.append(found[-1].before)
        return tuple(found)

    @property
    def causes(self) -> tuple[Traceback, ...]:
        """This one, the exception from which it was raised, and so on: without those that were only handled."""
        chain = self.chain
        handled = next((place for place, each in enumerate(chain) if not each.is_caused), len(chain))
        return chain[: handled + 1]

    @property
    def text(self) -> str:
        """The message and those of its causes, as far as rules search them."""
        return "\n".join(line for each in self.causes for line in (each.exception, *each.more))[:LONGEST_TEXT]
