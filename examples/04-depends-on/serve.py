"""Serves numbers on a port of its own, and says in a file where; the file goes when it ends."""

import os
import signal
import socketserver
import sys
import time


class Numbers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"".join(b"%d\n" % number for number in range(100)))


signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
time.sleep(0.5)  # as if it had data to load
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Numbers) as server:
    try:
        with open("address.tmp", "w") as file:
            file.write(f"{server.server_address[1]}")
        os.replace("address.tmp", "address.txt")
        print("serving", flush=True)
        server.serve_forever()
    finally:
        os.unlink("address.txt")
