"""Serves numbers until it is ended."""

import os
import signal
import socketserver
import sys
import time


class Numbers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"".join(b"%d\n" % number for number in range(100)))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True  # for a second run within a minute


signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
time.sleep(0.5)  # as if it had data to load
with Server(("", int(os.environ["DATA_PORT"])), Numbers) as server:
    print("serving", flush=True)
    server.serve_forever()
