"""vcjob compared with torchrun, TorchX and accelerate on one machine, and wait-for-master."""
