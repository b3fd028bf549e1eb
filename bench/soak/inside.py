"""`vcjob` with a thread that answers how much the process holds: ``python -m bench.soak.inside SOCKET ARGUMENTS...``

Every connection to the Unix socket gets one sample as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import threading

from bench.soak.curve import Sample, of_this_process
from vcjob.cli.main import main as command_line


def answer(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(json.dumps(of_this_process()).encode())


def ask(path: str) -> Sample:
    """The sample of the process that listens on `path`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        sample: Sample = json.load(connection.makefile())
    return sample


def main(path: str, *arguments: str) -> int:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    threading.Thread(target=answer, args=(listening,), daemon=True).start()
    return command_line(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
