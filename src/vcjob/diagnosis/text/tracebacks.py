"""What the tracebacks in a rank's output say: which one ended the program, and what was printed last.

`Suspect` and the local pods ask here. The prefixes of torch and torchrun are taken off; nothing is imported from the
user's program, and any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from vcjob.diagnosis.text.frames import Traceback
from vcjob.diagnosis.text.noise import is_minor_record, shows_progress, without_noise
from vcjob.diagnosis.text.prefixes import has_rank, plain
from vcjob.diagnosis.text.reader import Block, Reader

#: What a DataLoader raises because of the error that says which signal ended its worker.
_WORKER_EXITED = re.compile(r"DataLoader worker \(pid\(s\) [\d, ]{1,2000}\) exited unexpectedly")
_WORKER_KILLED = re.compile(r"DataLoader worker \(pid \d{1,9}\) is killed by signal")
#: Exceptions of a chain that are read: rules search the text of each together with what led to it.
LONGEST_CHAIN = 20
_DIED_OF = re.compile(r"died with <Signals\.\w{1,12}: (\d{1,3})>")


def tracebacks(lines: Iterable[str]) -> list[Traceback]:
    """Every complete traceback, in the order in which they were printed."""
    return [block.traceback for block in Reader([*map(plain, lines)]).blocks]


def last_traceback(lines: Sequence[str]) -> Traceback | None:
    """The one that may have ended the program: the last of the main thread.

    That of another thread or process counts where nothing follows it and the main thread raised nothing, or went on
    from it before; a launcher's where there is no other.
    """
    said = [*map(plain, lines)]
    blocks = [block for block in Reader(said).blocks if block.kind != "ignored"]
    own = [block for block in blocks if not block.kind and not block.traceback.is_launcher]
    handled = _judged(own[-1], blocks, lines, said) if own else None
    aside = [block for block in blocks if block.kind and own and block.start < own[-1].start]
    if handled is not None and aside:
        handled = msgspec.structs.replace(handled, aside=_explained(aside[-1], blocks))
    if handled is not None and not handled.went_on:
        return handled
    threads = [block for block in blocks if block.kind and (not own or block.start > own[-1].start)]
    if threads and not (found := _judged(threads[-1], blocks, lines, said)).went_on:
        return found
    if handled is not None:
        return handled
    if launchers := [block for block in blocks if not block.kind]:
        return _judged(launchers[-1], blocks, lines, said)
    return None


def _judged(block: Block, blocks: Sequence[Block], lines: Sequence[str], said: Sequence[str]) -> Traceback:
    """The traceback, with what the lines around it show.

    A launcher's own output below it is no sign of progress, nor are errors of the threads and processes that the end of
    the program took by surprise.
    """
    launchers = [each for each in blocks if each.start >= block.start and each.traceback.is_launcher]
    reader = Reader(said[block.end : launchers[0].start] if launchers else said[block.end :])
    after = [
        line
        for place, line in enumerate(reader.lines)
        if not any(place in each for each in reader.aside.values())
    ]
    died = next(filter(None, (_DIED_OF.search(each.traceback.text) for each in launchers)), None)
    return msgspec.structs.replace(
        _explained(block, blocks),
        uncaught=block.said < len(lines) and has_rank(lines[block.said]),
        went_on=not block.traceback.is_launcher and shows_progress(block.traceback.more, after),
        child_signal=int(died[1]) if died else None,
    )


def _explained(block: Block, blocks: Sequence[Block]) -> Traceback:
    """The traceback with what led to it; where that says how a worker ended, or is the same error, as one with it."""
    place = blocks.index(block)
    first = place
    while first and blocks[first].chained and place - first < LONGEST_CHAIN:
        first -= 1
    found = blocks[first].traceback
    for each in blocks[first + 1 : place + 1]:
        before, found = found, each.traceback
        if each.caused and found.exception == before.exception:
            # A pool repeats the error of its worker; only the worker's own traceback shows where it was raised.
            found = msgspec.structs.replace(
                found,
                frames=(*found.frames, *before.frames),
                before=before.before,
                is_caused=before.is_caused,
            )
        elif _WORKER_EXITED.search(found.exception) and _WORKER_KILLED.search(before.exception):
            more = (*before.more, found.exception)
            found = msgspec.structs.replace(found, exception=before.exception, more=more)
        else:
            found = msgspec.structs.replace(found, before=before, is_caused=each.caused)
    return found


def last_lines(lines: Sequence[str], count: int) -> tuple[str, ...]:
    """The last lines that may be a reason; noise, and errors that Python ignored, only where nothing else was printed."""
    said = [*map(plain, lines)]
    ignored = Reader(said).aside["ignored"]
    reasons = without_noise(line for place, line in enumerate(said) if place not in ignored)
    if not reasons:
        reasons = [text for line in said if (text := line.strip()) and not set(text) <= set("=-_ ")]
    return tuple(reasons[-count:])


def last_line(lines: Sequence[str]) -> str:
    return "".join(last_lines(lines, 1))


def says_why(lines: Sequence[str]) -> bool:
    """Whether these lines are likely to explain an end: a traceback at their end, or a last line that is no mere note."""
    found = last_traceback(lines)
    if found is not None and not found.went_on:
        return True
    said = without_noise(map(plain, lines))
    return bool(said) and not is_minor_record(said[-1])


def reason_line(lines: Sequence[str]) -> str:
    """Why a program ended, in one line of its own output: its last exception, else the last line."""
    found = last_traceback(lines)
    return found.exception if found is not None and not found.went_on else last_line(lines)
