"""A rank of the benchmark `diagnosis_cost`: a first collective, then steps of a fixed amount of work, each with one.

Prints when the first collective was done (CLOCK_MONOTONIC), the CPU seconds until then, the wall seconds of the median
step and the CPU seconds per step. CPU time is that of the rank and its shim, and on rank 0 of the supervisor too.
"""

import os
import sys
import time

import torch
import torch.distributed as dist


def parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def cpu_of(pid: int) -> float:
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


shim = os.getppid()
others = [shim, parent_of(shim)] if os.environ["RANK"] == "0" else [shim]


def cpu() -> float:
    return time.process_time() + sum(map(cpu_of, others))


torch.set_num_threads(1)
dist.init_process_group("gloo")
gradient = torch.ones(1000)
dist.all_reduce(gradient)
first, first_cpu = time.monotonic(), cpu()
weights = torch.rand(160, 160)
times = [0.0]
end = time.perf_counter() + float(sys.argv[1])
running = torch.tensor([float(sys.argv[1])])
while running.item():
    began = time.perf_counter()
    for _ in range(40):
        weights @ weights
    dist.all_reduce(gradient)
    times.append(time.perf_counter() - began)
    if len(times) % 50 == 0:  # every rank ends after the same step
        running = torch.tensor([float(time.perf_counter() < end)])
        dist.all_reduce(running, op=dist.ReduceOp.MIN)
step_cpu = (cpu() - first_cpu) / len(times)
times.sort()
print(f"measured {first} {first_cpu} {times[len(times) // 2]} {step_cpu}", flush=True)

# A rank that ends while another one is still in the last collective would make that one fail: they end together, and
# rank 0, whose process is the store, last.
store, rank, ranks = dist.distributed_c10d._get_default_store(), dist.get_rank(), range(dist.get_world_size())
store.set(f"done {rank}", "")
store.wait([f"done {each}" for each in ranks])
if rank:
    store.set(f"left {rank}", "")
else:
    store.wait([f"left {each}" for each in ranks[1:]])
dist.destroy_process_group()
