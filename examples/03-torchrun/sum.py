"""Every process adds its rank; the sum tells whether all were there."""

import os

import torch
import torch.distributed as dist

gpu = torch.cuda.is_available()
if gpu:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if gpu else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
number = torch.tensor([float(rank)], device="cuda" if gpu else "cpu")
dist.all_reduce(number)
assert number.item() == world * (world - 1) / 2
print(
    f"process {os.environ['LOCAL_RANK']} of node {os.environ['GROUP_RANK']} is rank {rank} of {world}",
    flush=True,
)
dist.barrier()
dist.destroy_process_group()
