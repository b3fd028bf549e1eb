"""What the guide's image does: rank 0 sends a value to every other rank, and each sends it back.

With torch it is torch.distributed over gloo; in an image without torch, plain sockets at the same address and port. It reads
the four variables that the PyTorch plugin injects and nothing else, as any training program would.
"""

from __future__ import annotations

import os
import socket
import time


def by_torch(rank: int, world: int) -> None:
    import torch
    import torch.distributed as dist

    os.environ.setdefault("USE_LIBUV", "0")  # Debian's torch has no libuv, and asks for it all the same
    dist.init_process_group("gloo")
    for peer in range(1, world):
        value = torch.zeros(1)
        if rank == 0:
            dist.send(torch.tensor([float(peer)]), dst=peer)
            dist.recv(value, src=peer)
            print(f"rank 0 got {value.item():.0f} back from rank {peer}", flush=True)
        elif rank == peer:
            dist.recv(value, src=0)
            print(f"rank {rank} has received {value.item():.0f} from rank 0", flush=True)
            dist.send(value, dst=0)
    dist.barrier()
    dist.destroy_process_group()


def by_sockets(rank: int, world: int, address: str, port: int) -> None:
    if rank == 0:
        with socket.create_server(("", port)) as server:
            served: set[int] = set()
            while len(served) < world - 1:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(5)
                    try:
                        peer = connection.recv(64)
                        connection.sendall(peer)
                    except OSError:
                        continue
                if peer.strip().isdigit():  # else somebody only looked whether we are here
                    print(f"rank 0 got {int(peer)} back from rank {int(peer)}", flush=True)
                    served.add(int(peer))
        return
    trouble = ""
    for _ in range(600):
        try:
            with socket.create_connection((address, port), timeout=5) as connection:
                connection.sendall(str(rank).encode())
                print(f"rank {rank} has received {int(connection.recv(64))} from rank 0", flush=True)
                return
        except OSError as error:
            if str(error) != trouble:
                trouble = str(error)
                print(f"rank {rank}: {trouble}; trying again", flush=True)
            time.sleep(0.2)
    raise SystemExit(f"rank {rank} never reached {address}:{port}")


if __name__ == "__main__":
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        import torch.distributed  # noqa: F401 - only to see whether it is there
    except ImportError:
        by_sockets(rank, world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        means = "sockets"
    else:
        by_torch(rank, world)
        means = "torch"
    print(f"rank {rank} of {world} is done, by {means}", flush=True)
