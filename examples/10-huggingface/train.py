"""Hugging Face Trainer on a small GPT-2 that is built here: nothing is downloaded.

The Trainer reads RANK, WORLD_SIZE, MASTER_ADDR and the rest from the environment, so the script has no code for it.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(torch.utils.data.Dataset):
    """Sequences of consecutive numbers, which the model learns to continue."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(16) + index) % 32
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    torch.manual_seed(7)  # the same model everywhere
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=32, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir="checkpoints",
        use_cpu=not torch.cuda.is_available(),
        max_steps=20,
        per_device_train_batch_size=8,
        learning_rate=0.01,
        logging_steps=10,
        save_steps=10,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Counting())
    result = trainer.train()
    world = arguments.world_size
    if trainer.is_world_process_zero():
        print(
            f"{world} ranks trained {result.global_step} steps: loss {result.training_loss:.2f}", flush=True
        )
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
