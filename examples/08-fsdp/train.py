"""FSDP training of a small model: parameters, gradients and optimizer state are divided among the ranks."""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", 0) if gpu else torch.device("cpu")

    torch.manual_seed(7)  # the same model everywhere, before it is divided
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    total = sum(parameter.numel() for parameter in model.parameters())
    mesh = torch.distributed.device_mesh.init_device_mesh(device.type, (world,))
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    own = sum(parameter.to_local().numel() for parameter in model.parameters())
    print(f"rank {rank} of {world} holds {own} of {total} parameters", flush=True)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    weights = torch.randn(8, 1, device=device)
    torch.manual_seed(rank)  # every rank has data of its own
    for step in range(options.steps):
        inputs = torch.randn(64, 8, device=device)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
        if rank == 0 and step % 5 == 4:
            print(f"step {step + 1}: loss {loss.item() / world:.3f}", flush=True)
    dist.barrier()
    if rank == 0:
        print("trained", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
