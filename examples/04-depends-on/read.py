"""Reads the numbers; that the server is there is known, so there is no loop that waits for it."""

import os
import socket

with open("address.txt") as file:
    port = int(file.read())
with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile() as lines:
    total = sum(int(line) for line in lines)
print(f"reader {os.environ['VC_TASK_INDEX']} read numbers that add up to {total}", flush=True)
assert total == 4950
