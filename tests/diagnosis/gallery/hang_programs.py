"""Programs of ranks that wait for each other without end, or only for long (gloo, on CPUs). Each begins with `INIT`."""

INIT = """
import os, sys, time, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
dist.init_process_group('gloo')
for _ in range(3):
    dist.all_reduce(torch.ones(4))
print('begun', flush=True)
"""
ALL_REDUCE = "\ndist.all_reduce(torch.ones(4))\n"
SLEEPS = INIT + "if rank == 1:\n    time.sleep(600)" + ALL_REDUCE
LOOPS = INIT + "x = 0\nwhile rank == 1:\n    x += 1" + ALL_REDUCE
DATA_LOADER = (
    INIT
    + """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if rank == 1:
            time.sleep(600)
        return torch.ones(1)

for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
    dist.all_reduce(torch.ones(4))
"""
)
#: The worker is forked while a thread holds a lock that it needs, as a logger's or a client's: nobody releases its copy.
FORKED_LOCK = (
    INIT
    + """
import threading
lock, held, forked = threading.Lock(), threading.Event(), threading.Event()

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        with lock:
            return torch.ones(1)

def hold():
    with lock:
        held.set()
        forked.wait()

if rank == 1:
    threading.Thread(target=hold).start()
    held.wait()
batches = iter(torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context='fork'))
forked.set()
for batch in batches:
    dist.all_reduce(torch.ones(4))
"""
)
GATHERS = (
    INIT
    + "if rank == 1:\n    dist.all_gather([torch.ones(4) for _ in range(3)], torch.ones(4))\nelse:\n    dist.all_reduce(torch.ones(4))"
    + ALL_REDUCE * 3
    + "time.sleep(600)"
)
SIZES = INIT + "for _ in range(3):\n    dist.all_reduce(torch.ones(5 if rank == 1 else 4))\ntime.sleep(600)"
STRAGGLES = (
    INIT
    + "for _ in range(900):\n    time.sleep(1.0 if rank == 1 else 0.05)\n    dist.all_reduce(torch.ones(4))"
)
PREPARES = (
    INIT.replace("for _ in", "if rank == 1:\n    {}\nfor _ in").replace("range(3)", "range(4)")
    + "time.sleep(600)"
)
UNEVEN = (
    INIT
    + "for _ in range(99):\n    time.sleep(2.5 if rank == 1 else 0.1)\n    dist.all_reduce(torch.ones(4))"
)
RECEIVES = INIT + "if rank == 0:\n    dist.recv(torch.ones(4), src=1)\ntime.sleep(600)"
SENDS = INIT + "if rank == 0:\n    dist.send(torch.ones(1 << 24), dst=1)\ntime.sleep(600)"
CROSSED = INIT + "if rank < 2:\n    dist.recv(torch.ones(4), src=1 - rank)\ntime.sleep(600)"
#: Rank 0 receives what rank 1 makes: with much work, or seldom and with little.
PIPELINES = {
    "computes": INIT + "if rank == 0:\n    dist.recv(torch.ones(4), src=1)\nwhile True: sum(range(1000))",
    "sends-seldom": INIT
    + "while True:\n    if rank == 0:\n        dist.recv(torch.ones(4), src=1)\n    elif rank == 1:\n        time.sleep(1.5)\n        dist.send(torch.ones(4), dst=0)\n    else:\n        time.sleep(600)",
}
#: What one rank does while the others wait in their first collective, or between two of them.
WORK = {
    "long-first-compile": "end = time.time() + 60\n    while time.time() < end: sum(range(1000))",
    "compiles-in-a-child": "import subprocess; subprocess.run(['timeout', '60', 'sh', '-c', 'while :; do :; done'])",
    "downloads": "end = time.time() + 60\n    while time.time() < end: os.urandom(99999), open('/dev/zero', 'rb').read(1 << 20), time.sleep(0.05)",
    "writes-a-checkpoint": "file = open('checkpoint', 'wb')\n    while True: file.seek(0), file.write(bytes(1 << 16)), os.fsync(file.fileno()), time.sleep(0.05)",
    "prints": "for _ in range(200): print('downloading', flush=True), time.sleep(0.3)",
}

JOIN = "import os, time, torch, torch.distributed as dist\nrank = int(os.environ['RANK'])\nprint('up', flush=True)\n"
INIT_ONLY = "dist.init_process_group('gloo')\ntime.sleep(600)"
#: What a rank may do for long before it joins.
LATE = {
    "rank-0-computes": "if rank == 0:\n    while True: sum(range(1000))\n",
    "rank-0-downloads": "if rank == 0:\n    while True: open('/dev/zero', 'rb').read(1 << 20), time.sleep(0.05)\n",
    "rank-2-computes": "if rank == 2:\n    while True: sum(range(1000))\n",
}
#: Four ranks in two rows and two columns. Rank 1 waits for rank 3 in its column, and so rank 0 for rank 1 in its row.
GRID = (
    INIT
    + """
rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
groups = columns[rank % 2], rows[rank // 2]
for group in groups:
    dist.all_reduce(torch.ones(4), group=group)
if rank == 3:
    {}
for group in groups:
    dist.all_reduce(torch.ones(4), group=group)
time.sleep(600)
"""
)
OTHER_ORDER = (
    INIT
    + """
pairs = [dist.new_group([0, 1]), dist.new_group([0, 1])]
for group in pairs if rank == 0 else reversed(pairs):
    if rank < 2:
        dist.all_reduce(torch.ones(4), group=group)
time.sleep(600)
"""
)
