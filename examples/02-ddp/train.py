"""DDP training of a small model on made-up data. Rank 0 saves a checkpoint after every epoch."""

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
    parser.add_argument("--folder", default=".", help="for the checkpoint and the model; only rank 0 uses it")
    parser.add_argument(
        "--crash-at",
        type=int,
        help="rank 1 is killed in this epoch, unless training continues from a checkpoint",
    )
    options = parser.parse_args()
    # The variable is set only on a machine that does not allow mounts.
    folder = os.environ.get("VCJOB_MOUNT_OUTPUT", options.folder)
    checkpoint, trained = os.path.join(folder, "checkpoint.pt"), os.path.join(folder, "model.pt")

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

    begin = load(checkpoint, bare, optimizer)
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
            save(checkpoint, bare, optimizer, epoch + 1)
    dist.barrier()
    if rank == 0:
        os.replace(checkpoint, trained)  # done: the next run starts from the beginning
        print(f"trained: {trained}", flush=True)
    dist.destroy_process_group()


def save(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Write the new checkpoint, then put it in place of the old one, so that there is always a complete one."""
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(checkpoint, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def load(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch to begin with. Rank 0 reads the checkpoint and sends it to the others."""
    found = [None]
    if dist.get_rank() == 0 and os.path.exists(path):
        found = [torch.load(path, map_location="cpu", weights_only=True)]
    dist.broadcast_object_list(found)
    (checkpoint,) = found
    if checkpoint is None:
        return 0
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"]


if __name__ == "__main__":
    main()
