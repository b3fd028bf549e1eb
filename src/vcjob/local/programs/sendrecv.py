"""Rank 0 sends every other rank a tensor, gets it back changed, and checks each number.

python -m vcjob.local.programs.sendrecv
"""

from __future__ import annotations

from typing import Any

from vcjob.local.programs.group import Group, joined

_LENGTH = 16


def main() -> None:
    with joined() as group:
        if group.world == 1:
            group.say("only one rank: nothing to send")
        elif group.rank == 0:
            _ask_all(group)
        else:
            _answer(group)


def _ask_all(group: Group) -> None:
    for peer in range(1, group.world):
        group.dist.send(_numbers(group, 100 * peer), dst=peer)
    for peer in range(1, group.world):
        answer = _numbers(group, 0)
        group.dist.recv(answer, src=peer)
        if not bool((answer == _numbers(group, 100 * peer + peer)).all()):
            group.wrong(f"rank {peer} sent back {answer.tolist()}")
    group.say(
        f"sent {_LENGTH} numbers to each of {group.world - 1} ranks, all came back with the expected values"
    )


def _answer(group: Group) -> None:
    numbers = _numbers(group, 0)
    group.dist.recv(numbers, src=0)
    if not bool((numbers == _numbers(group, 100 * group.rank)).all()):
        group.wrong(f"rank 0 sent {numbers.tolist()}")
    group.dist.send(numbers + group.rank, dst=0)
    group.say(f"received {_LENGTH} numbers from rank 0, sent them back plus {group.rank}")


def _numbers(group: Group, start: int) -> Any:
    return group.torch.arange(start, start + _LENGTH, device=group.device)


if __name__ == "__main__":
    main()
