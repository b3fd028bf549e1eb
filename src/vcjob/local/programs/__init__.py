"""Small programs of torch.distributed that run as ranks: they prove that a job's ranks reach each other.

They need PyTorch and the variables of the pytorch plugin, nothing else of vcjob.
"""
