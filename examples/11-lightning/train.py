"""Lightning's Trainer with DDP: the ranks are started by the Job, not by Lightning."""

import os

import lightning
import torch
from lightning.fabric.plugins.environments import TorchElasticEnvironment


class Regression(lightning.LightningModule):
    """A linear model that learns made-up weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    lightning.seed_everything(7, verbose=False)  # the same model and the same data everywhere
    inputs = torch.randn(256, 8)
    data = torch.utils.data.TensorDataset(inputs, inputs @ torch.randn(8, 1))
    trainer = lightning.Trainer(
        # LOCAL_WORLD_SIZE is 1 where a pod runs one rank, and torchrun's --nproc-per-node elsewhere.
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        plugins=[TorchElasticEnvironment()],  # RANK, WORLD_SIZE and MASTER_ADDR, with torchrun and without
        accelerator="auto",
        max_epochs=4,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(), torch.utils.data.DataLoader(data, batch_size=32))
    loss = trainer.callback_metrics["loss"].item()
    print(f"rank {trainer.global_rank} of {trainer.world_size}: loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
