"""A rank of the launch benchmark: joins, adds up once, writes when it was done, waits until it is ended.

first_collective.py FOLDER [die]: with `die`, rank 1 then dies and the others would wait without end.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

folder, dies = sys.argv[1], "die" in sys.argv
dist.init_process_group("gloo")
rank = dist.get_rank()
numbers = torch.ones(1)
dist.all_reduce(numbers)
done = time.time()
assert numbers.item() == dist.get_world_size()


def leave(name: str, text: str) -> None:
    with open(os.path.join(folder, f"{name}.tmp"), "w") as file:
        file.write(text)
    os.replace(os.path.join(folder, f"{name}.tmp"), os.path.join(folder, name))


leave(f"done-{rank}", repr(done))
dist.barrier()
if dies:
    if rank == 1:
        time.sleep(0.3)  # by now the launcher has nothing else to do
        leave("death", repr(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
while not os.path.exists(os.path.join(folder, "end")):
    time.sleep(0.01)
dist.barrier()
dist.destroy_process_group()
