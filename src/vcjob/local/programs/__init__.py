"""Small torch.distributed programs that run as ranks: they show that the ranks of a job reach each other.

They need PyTorch and the variables of the pytorch plugin, nothing else of vcjob.
"""
