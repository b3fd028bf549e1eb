"""Every rank adds its number, from 1 on, to those of all others."""

import torch
import torch.distributed as dist

gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
number = torch.tensor([rank + 1.0], device="cuda" if gpu else "cpu")
dist.all_reduce(number)
print(f"rank {rank} of {world}: sum {number.item():g}", flush=True)
dist.barrier()
dist.destroy_process_group()
