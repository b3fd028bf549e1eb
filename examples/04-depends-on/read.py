"""Reads the numbers; that the server is there is known, so there is no loop that waits for it."""

import os
import socket

server = os.environ["VC_DATA_HOSTS"].split(",")[0], int(os.environ["DATA_PORT"])
with socket.create_connection(server) as connection, connection.makefile() as lines:
    total = sum(int(line) for line in lines)
print(f"reader {os.environ['VC_TASK_INDEX']} read numbers that add up to {total}", flush=True)
assert total == 4950
