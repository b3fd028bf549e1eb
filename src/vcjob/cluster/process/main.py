"""The process of `vcjob controller`: logging, health, metrics, the webhook on every replica, and the controller on the
replica that holds the Lease.

The CLI calls `run`. It knows every other package of `cluster`; none of them knows it. What makes serving impossible
(`VcjobError`) is logged and becomes the exit code.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import msgspec

from vcjob._version import __version__
from vcjob.cluster.controller.controller import run_controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.install.crd_check import check_served
from vcjob.cluster.install.settings import CONFIGURATION
from vcjob.cluster.process.health import Health, serve_health, serve_metrics
from vcjob.cluster.process.json_logging import set_up_logging
from vcjob.cluster.process.metrics import Metrics
from vcjob.errors import VcjobError
from vcjob.kube.api.client import Client
from vcjob.kube.config.config import ClusterConfig, load
from vcjob.kube.errors import KubeError
from vcjob.kube.http.transport import Transport

log = logging.getLogger(__name__)
_RETRY_SECONDS = 2.0
#: How long the webhook still answers after SIGTERM: API servers learn only later that this replica has ended.
_DRAIN_SECONDS = 2.0
_TERMINATION_LOG = "/dev/termination-log"


def run(kubeconfig: str | None, context: str | None, chosen: dict[str, Any]) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code. The reason for an early end is logged.

    `chosen` are fields of `ControllerOptions`.
    """
    options = msgspec.convert(chosen, ControllerOptions)
    set_up_logging(options.log_level, as_json=options.log_json)
    # Imported objects live as long as the process, and the controller creates few reference cycles: collecting less
    # often saves a fifteenth of the CPU.
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
    try:
        config = load(kubeconfig, context)
        with _profiled(options.profile), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(config, options))
    except VcjobError as error:
        if options.log_json:
            log.error("%s", error.message, extra={"hint": error.hint})
        else:
            log.error("%s%s", error.message, f" (hint: {error.hint})" if error.hint else "")
        _write_termination_message(error)
        return error.exit_code
    return 0


def _write_termination_message(error: VcjobError) -> None:
    """Where the kubelet looks for the reason of a container's end; outside a pod there is no such file."""
    try:
        with open(_TERMINATION_LOG, "r+", encoding="utf-8") as file:
            file.write(f"{error.message}\nhint: {error.hint}\n" if error.hint else f"{error.message}\n")
    except OSError:
        pass


async def serve(config: ClusterConfig, options: ControllerOptions) -> None:
    """Serve until a signal ends it; raises `VcjobError` where that is not possible."""
    metrics, health, stop = Metrics(), Health(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    log.info("vcjob %s serves Jobs of %s", __version__, config.server)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(config, transport=Transport(config, observer=metrics.requested))
        )
        for server in (
            await serve_health(health, host=options.host, port=options.health_port),
            await serve_metrics(metrics, host=options.host, port=options.metrics_port),
        ):
            stack.push_async_callback(server.close)
        parts: list[Coroutine[Any, Any, None]] = [_check_definition(client)]
        if options.webhook:
            health.waiting_for = "the webhook's certificate"
            parts.append(_webhook(client, options, health, metrics, stop))
        await _run_until_main_ends(run_controller(client, options, metrics=metrics, stop=stop), parts, stop)


async def _run_until_main_ends(
    main: Coroutine[Any, Any, None], parts: Iterable[Coroutine[Any, Any, None]], stop: asyncio.Event
) -> None:
    """Run all until `main` ends or one of the parts fails; then end the others."""
    leading = asyncio.create_task(main)
    others = [asyncio.create_task(part) for part in parts]
    try:
        waiting: set[asyncio.Task[None]] = {leading, *others}
        while leading in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        stop.set()
        for task in waiting:  # the webhook still answers while it drains
            await task
    finally:
        for task in (leading, *others):
            task.cancel()
        await asyncio.gather(leading, *others, return_exceptions=True)


async def _webhook(
    client: Client, options: ControllerOptions, health: Health, metrics: Metrics, stop: asyncio.Event
) -> None:
    from vcjob.cluster.webhook.queues import QueueCache
    from vcjob.cluster.webhook.server import serve_webhook
    from vcjob.cluster.webhook.tls import WebhookTls

    service = f"{options.service_name}.{options.lease_namespace}.svc"
    tls = WebhookTls(
        client,
        secret=options.certificate_secret,
        namespace=options.lease_namespace,
        names=[service, f"{service}.cluster.local"],
        configurations=[CONFIGURATION],
        on_served=metrics.certificate_expires,
    )

    def failed(error: KubeError) -> None:
        log.warning("cannot load or create the webhook's certificate: %s", error)
        health.waiting_for = f"the webhook's certificate: {error.message}"

    if not await _retry(tls.start, failed, stop):
        return
    queues = QueueCache(client)
    server = await serve_webhook(
        tls.context,
        host=options.host,
        port=options.webhook_port,
        queues=queues.current,
        observe=metrics.reviewed,
    )
    keeping = [asyncio.create_task(tls.run()), asyncio.create_task(queues.run())]
    stopping = asyncio.create_task(stop.wait())
    try:
        health.waiting_for = ""
        await asyncio.wait({stopping, *keeping}, return_when=asyncio.FIRST_COMPLETED)
        for task in keeping:
            if task.done():
                task.result()
        health.waiting_for = "its end (it is draining)"
        await asyncio.sleep(_DRAIN_SECONDS)
    finally:
        stopping.cancel()
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, stopping, return_exceptions=True)
        await server.close()


async def _retry(
    attempt: Callable[[], Awaitable[None]], failed: Callable[[KubeError], None], stop: asyncio.Event
) -> bool:
    """Call `attempt` until it succeeds; False where `stop` was set before."""
    while not stop.is_set():
        try:
            await attempt()
            return True
        except KubeError as error:
            failed(error)
        try:
            await asyncio.wait_for(stop.wait(), _RETRY_SECONDS)
        except TimeoutError:
            pass
    return False


async def _check_definition(client: Client) -> None:
    """Log a warning where somebody has replaced our definition of Jobs by another."""
    try:
        for note in await check_served(client):
            log.warning("%s", note)
    except KubeError as error:
        log.warning("cannot check the definition of Jobs: %s", error)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextmanager
def _profiled(file: str | None) -> Iterator[None]:
    """Write a CPU profile for `python -m pstats` on exit."""
    if not file:
        yield
        return
    import cProfile

    with cProfile.Profile() as profile:
        yield
    profile.dump_stats(file)
