"""The ranks of a job and nothing else: bare.py RANKS PORT SCRIPT [ARGUMENT...]."""

import os
import subprocess
import sys

ranks, port, script = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
children = [
    subprocess.Popen([sys.executable, *script], env={**env, "RANK": str(rank)}) for rank in range(ranks)
]
sys.exit(max(child.wait() for child in children))
