"""How a printed command names a job, so that a user can copy it: the name and the options that find it again.

The SDK knows nothing of command lines; this is the only place where one is put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Handle


def job_reference(job: Handle, where: Where) -> str:
    """`NAME`, or `NAME --on cluster -n team`; `where` is what the user typed."""
    words = [job.name]
    if job.backend == "cluster":
        words.append("--on cluster")
        words += [f"--context {where['context']}"] if where["context"] else []
        words += [f"--kubeconfig {where['kubeconfig']}"] if where["kubeconfig"] else []
    if job.backend == "cluster" or job.namespace != "default":
        words.append(f"-n {job.namespace}")
    return " ".join(words)
