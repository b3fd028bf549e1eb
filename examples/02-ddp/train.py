"""DDP training of a small model on made-up data, with a checkpoint after every epoch."""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument(
        "--crash-at", type=int, help="rank 1 is killed in this epoch, if it started from the beginning"
    )
    options = parser.parse_args()

    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", 0) if gpu else torch.device("cpu")

    torch.manual_seed(7)  # the same model and the same data everywhere
    inputs = torch.randn(1024, 8)
    targets = inputs @ torch.randn(8, 1) + 0.01 * torch.randn(1024, 1)
    data = TensorDataset(inputs, targets)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank)
    batches = DataLoader(data, batch_size=64, sampler=sampler)
    bare = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    model = DistributedDataParallel(bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    begin = load(options.checkpoint, bare, optimizer)
    if rank == 0:
        print(f"{world} ranks train from epoch {begin} on", flush=True)
    for epoch in range(begin, options.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(1, device=device)
        for batch, (x, y) in enumerate(batches):
            if begin == 0 and epoch == options.crash_at and rank == 1 and batch == 2:
                print("rank 1 is killed", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / world / len(batches):.4f}", flush=True)
            save(options.checkpoint, bare, optimizer, epoch + 1)
    dist.barrier()
    if rank == 0:
        os.replace(options.checkpoint, "model.pt")  # done: the next run starts from the beginning
        print("trained: model.pt", flush=True)
    dist.destroy_process_group()


def save(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Put a whole checkpoint in place of the old one: a death in the middle leaves the old one."""
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, f"{path}.tmp"
    )
    os.replace(f"{path}.tmp", path)


def load(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch to begin with. All ranks load the checkpoint before any of them writes a new one."""
    epoch = 0
    if os.path.exists(path):
        found = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        epoch = found["epoch"]
    dist.barrier()
    return epoch


if __name__ == "__main__":
    main()
