"""A rank of the benchmark `diagnosis_cost`: steps of a fixed amount of work, each with a collective.

Prints the seconds from the start of the process to the first collective, and the CPU and wall seconds per step.
"""

import os
import sys
import time

import torch
import torch.distributed as dist


def process_age() -> float:
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as file:
        return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


torch.set_num_threads(1)
dist.init_process_group("gloo")
gradient = torch.ones(1000)
dist.all_reduce(gradient)
first = process_age()
weights = torch.rand(160, 160)
times = []
cpu = time.process_time()
end = time.perf_counter() + float(sys.argv[1])
running = torch.ones(1)
while running.item():
    began = time.perf_counter()
    for _ in range(40):
        weights @ weights
    dist.all_reduce(gradient)
    times.append(time.perf_counter() - began)
    if len(times) % 50 == 0:  # every rank ends after the same step
        running = torch.tensor([float(time.perf_counter() < end)])
        dist.all_reduce(running, op=dist.ReduceOp.MIN)
cpu = time.process_time() - cpu
times.sort()
print(f"measured {first} {times[len(times) // 2]} {cpu / len(times)}", flush=True)
dist.destroy_process_group()
