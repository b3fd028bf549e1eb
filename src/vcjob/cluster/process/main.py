"""The process behind `vcjob controller`: logs, health, metrics, the webhook on every replica, and the
controller on the one that holds the Lease."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

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
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import KubeError
from vcjob.kube.http.transport import Transport

log = logging.getLogger(__name__)
_RETRY_SECONDS = 2.0
#: How long the webhook still answers after we were told to go: the API server hears of it a little later.
_DRAIN_SECONDS = 2.0


def run(config: ClusterConfig, options: ControllerOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    set_up_logging(options.log_level, as_json=options.log_json)
    # What was imported stays, and next to nothing that a controller drops hangs in a circle: to look for it less
    # often saves a fifteenth of the CPU.
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
    try:
        with _profiled(options.profile), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(config, options))
    except VcjobError as error:
        if not options.log_json:
            raise
        log.critical("%s", error.message, extra={"hint": error.hint})  # as every other line, not as text
        raise SystemExit(error.exit_code) from None


async def serve(config: ClusterConfig, options: ControllerOptions, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set (by a signal, where none is given), or raise why that is not possible."""
    metrics, health = Metrics(), Health()
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    log.info("vcjob %s serves the Jobs of %s", __version__, config.server)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(config, transport=Transport(config, observer=metrics.requested))
        )
        for server in (
            await serve_health(health, host=options.host, port=options.health_port),
            await serve_metrics(metrics, host=options.host, port=options.metrics_port),
        ):
            stack.push_async_callback(server.close)
        parts: list[Coroutine[Any, Any, None]] = [_look_at_kinds(client)]
        if options.webhook:
            health.waiting_for = "the webhook's certificate"
            parts.append(_webhook(client, options, health, stop))
        await _first_end(run_controller(client, options, metrics=metrics, stop=stop), parts, stop)


async def _first_end(
    main: Coroutine[Any, Any, None], parts: Iterable[Coroutine[Any, Any, None]], stop: asyncio.Event
) -> None:
    """Run all until `main` ends or one of the parts fails; then end the rest."""
    leading = asyncio.create_task(main)
    others = [asyncio.create_task(part) for part in parts]
    try:
        waiting: set[asyncio.Task[None]] = {leading, *others}
        while leading in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        stop.set()
        for task in waiting:  # the webhook answers for a little while yet
            await task
    finally:
        for task in (leading, *others):
            task.cancel()
        await asyncio.gather(leading, *others, return_exceptions=True)


async def _webhook(client: Client, options: ControllerOptions, health: Health, stop: asyncio.Event) -> None:
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
    )
    if not await _persevere(tls.start, "the webhook's certificate cannot be had yet", stop):
        return
    queues = QueueCache(client)
    server = await serve_webhook(
        tls.context, host=options.host, port=options.webhook_port, queues=queues.current
    )
    keeping = [asyncio.create_task(tls.run()), asyncio.create_task(queues.run())]
    stopping = asyncio.create_task(stop.wait())
    try:
        health.waiting_for = ""
        await asyncio.wait({stopping, *keeping}, return_when=asyncio.FIRST_COMPLETED)
        for task in keeping:
            if task.done():
                task.result()
        health.waiting_for = "its end"
        await asyncio.sleep(_DRAIN_SECONDS)
    finally:
        stopping.cancel()
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, stopping, return_exceptions=True)
        await server.close()


async def _persevere(attempt: Callable[[], Awaitable[None]], words: str, stop: asyncio.Event) -> bool:
    """Do it until it succeeds; False where we are to stop before that."""
    while not stop.is_set():
        try:
            await attempt()
            return True
        except KubeError as error:
            log.warning("%s: %s", words, error)
        try:
            await asyncio.wait_for(stop.wait(), _RETRY_SECONDS)
        except TimeoutError:
            pass
    return False


async def _look_at_kinds(client: Client) -> None:
    """Somebody may have put another definition of Jobs in the place of ours: then say so, once."""
    try:
        for note in await check_served(client):
            log.warning("%s", note)
    except KubeError as error:
        log.warning("the definition of Jobs could not be looked at: %s", error)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextmanager
def _profiled(file: str | None) -> Iterator[None]:
    """Where the time goes, written for `python -m pstats` at the end."""
    if not file:
        yield
        return
    import cProfile

    with cProfile.Profile() as profile:
        yield
    profile.dump_stats(file)
