"""`vcjob ui`: the web page for jobs, served on this machine.

It reads its options and starts the server of `vcjob.ui` with a backend of the SDK. It must not know what the page
shows. A port that is in use, or options that do not fit together, are errors before anything is served.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.numbers import WholeNumber
from vcjob.cli.arguments.options import backend_options

if TYPE_CHECKING:
    from vcjob.sdk.backend import Backend, Where
    from vcjob.ui.proxied import Proxy

#: The thread that opens the browser.
BROWSER_THREAD = "vcjob-ui-browser"


@click.command("ui")
@click.argument("job", required=False)
@backend_options("Only the jobs of this namespace.")
@click.option(
    "--port", type=WholeNumber(0, 65535), default=0, help="The port to listen on.  [default: a free one]"
)
@click.option("--no-open", is_flag=True, help="Print the URL; do not open a browser.")
@click.option(
    "--read-only",
    is_flag=True,
    help="Show jobs, but start, change and delete none, and run nothing in their pods.",
)
@click.option(
    "--export", "file", type=click.Path(dir_okay=False), help="Write the page of JOB to this file and exit."
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Serve the users that an authenticating proxy on this machine names, each with their own permissions on "
    "the cluster; there is no token.",
)
@click.option(
    "--user-header",
    default="X-Remote-User",
    show_default=True,
    metavar="NAME",
    help="The proxy's header with the user.",
)
@click.option(
    "--group-header",
    default="X-Remote-Group",
    show_default=True,
    metavar="NAME",
    help="The proxy's header with the user's groups, separated by commas or repeated.",
)
@click.option(
    "--proxy-secret-file",
    type=click.Path(exists=True, dir_okay=False),
    help="The proxy must send this file's content in the header X-Vcjob-Proxy-Secret. Required outside a pod.",
)
def command(
    *,
    job: str | None,
    where: Where,
    port: int,
    no_open: bool,
    read_only: bool,
    file: str | None,
    behind_proxy: bool,
    user_header: str,
    group_header: str,
    proxy_secret_file: str | None,
) -> None:
    """Show jobs in a browser: ranks, logs, events, and why a job fails.

    The page is served on this machine only, and the URL holds a secret token: do not share it. Ctrl-C ends
    the server; jobs keep running. With JOB the page of that job is opened; with --export too, one file holds it
    and there is no server.
    """
    if job is None and file is not None:
        raise click.UsageError("--export needs JOB")
    if job is not None and behind_proxy:
        raise click.UsageError("JOB and --behind-proxy cannot be used together")
    if job is not None and file is not None:
        _export(job, where, file)
        return
    import asyncio

    from vcjob.sdk.backend import open_backend
    from vcjob.ui.server import serve

    source: Backend | Proxy
    if behind_proxy:
        source = _proxy(where, user_header, group_header, proxy_secret_file)
    else:
        source = open_backend(where["on"], where["context"], where["kubeconfig"])
        source.check_configuration()

    view = "" if job is None else _view_of(job, where)
    until_the_end = ExitStack()

    def ready(url: str) -> None:
        url += view
        click.echo(f"vcjob UI: {url}")
        tunnel = _tunnel(url)
        if behind_proxy:
            pass  # users reach the proxy, not this address
        elif tunnel:
            click.echo(f"From your own machine: {tunnel}\nThen open the URL there.")
        elif not no_open and _has_display():
            _open_browser(url, until_the_end)
        sys.stdout.flush()

    with until_the_end:
        served = serve(source, port=port, namespace=where["namespace"], read_only=read_only, on_ready=ready)
        ended_by = asyncio.run(_until_a_signal(served))
    if ended_by is not None:
        raise SystemExit(128 + ended_by)


async def _until_a_signal(serving: Coroutine[Any, Any, None]) -> int | None:
    """Serve until SIGTERM or SIGHUP arrives, and return its number: `kill` and a terminal that is closed end the server as
    Ctrl-C does, so that the file with its token is deleted. The event loop calls the handler, because an exception that a
    handler raises itself is lost where it interrupts a destructor."""
    import asyncio

    loop, server = asyncio.get_running_loop(), asyncio.ensure_future(serving)
    got: list[int] = []

    def end(number: int) -> None:
        got.append(number)
        server.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            loop.add_signal_handler(number, end, number)
    try:
        await server
    except asyncio.CancelledError:
        if not got:
            raise
    return got[0] if got else None


def _view_of(name: str, where: Where) -> str:
    """What the URL says in addition to open the page of a job."""
    from urllib.parse import quote

    from vcjob.sdk.finding import find

    job = find(name, **where)
    shown = job.uid if name == job.uid else job.name  # of the runs with a name the newest is shown
    return f"&job={quote(job.namespace, safe='')}/{quote(shown, safe='')}"


def _open_browser(url: str, until_the_end: ExitStack) -> None:
    """Open the URL without showing the token to other users; where that fails, the printed URL is enough."""
    from vcjob.ui.redirect import redirect_to

    with suppress(OSError):
        file = until_the_end.enter_context(redirect_to(url))
        # Some browsers return only when they are closed, and the server has to answer them.
        threading.Thread(target=webbrowser.open, args=(file,), name=BROWSER_THREAD, daemon=True).start()


def _proxy(where: Where, user_header: str, group_header: str, secret_file: str | None) -> Proxy:
    from vcjob.errors import UserError
    from vcjob.sdk.cluster_backend import ImpersonatingBackend, check_impersonation
    from vcjob.ui.proxied import Identity, Proxy

    if where["on"] == "local":
        raise UserError(
            "--behind-proxy serves the users of a cluster, and this machine has none", hint="use --on cluster"
        )
    secret = Path(secret_file).read_text(encoding="utf-8").strip() if secret_file else ""
    if secret_file and not secret:
        raise UserError(f"{secret_file} is empty", hint="write the secret that the proxy sends to it")
    check_impersonation(where["context"], where["kubeconfig"], secret=bool(secret))

    def backend_of(identity: Identity) -> ImpersonatingBackend:
        return ImpersonatingBackend(where["context"], where["kubeconfig"], *identity)

    return Proxy(backend_of, user_header, group_header, secret)


def _export(name: str, where: Where, file: str) -> None:
    from vcjob.errors import UserError
    from vcjob.sdk.finding import find
    from vcjob.ui.export import export

    text = export(find(name, **where))
    try:
        with click.open_file(file, "w", encoding="utf-8", atomic=True) as out:
            out.write(text)
    except OSError as error:
        if file == "-":
            raise  # as for the output of every other verb
        raise UserError(
            f"{file} cannot be written: {error.strerror}", hint="choose another with --export"
        ) from None


def _tunnel(url: str) -> str:
    """The ssh command that forwards the port, where this shell came over ssh."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) != 4:
        return ""
    port = url.partition("/#")[0].rpartition(":")[2]
    server = f"{os.environ.get('USER', 'user')}@{connection[2]}"
    listening = "" if connection[3] == "22" else f"-p {connection[3]} "
    return f"ssh -N -L {port}:127.0.0.1:{port} {listening}{server}"


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
