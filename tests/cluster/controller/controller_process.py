"""A controller as a process of its own, to be killed: ``python -m tests.cluster.controller.controller_process KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from vcjob.cluster.controller.controller import run_controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.kube.api.client import Client
from vcjob.kube.config.config import load
from vcjob.kube.controller.lease import LeaseSettings

QUICK_LEASE = LeaseSettings(lease_seconds=6.0, renew_seconds=4.0, retry_seconds=0.3)


async def main(kubeconfig: str, namespace: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    options = ControllerOptions(
        namespaces=(namespace,), lease_namespace=namespace, lease=QUICK_LEASE, gang="none"
    )
    async with Client(load(kubeconfig)) as client:
        await run_controller(client, options, stop=stop)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
