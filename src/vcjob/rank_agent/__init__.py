"""Code that runs inside the Python processes of ranks: it reports the collectives and the stack of its process.

`sitecustomize` is put on PYTHONPATH by the launcher; it loads `agent` when the program imports torch.distributed.
Both run under the job's interpreter, of any version, and import nothing of vcjob. What fails in them is silent.
"""
