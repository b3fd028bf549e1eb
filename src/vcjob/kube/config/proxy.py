"""The proxy of an API server from the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, read as Go does.

`kube.config.config` calls it for the pod's own account, and where a kubeconfig names no proxy. It only reads text: it
opens no connection, and a malformed entry of NO_PROXY matches nothing instead of raising an error.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def environment_proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for `server`; None: a direct connection."""
    parts = urlsplit(server)
    names = ("HTTPS_PROXY", "https_proxy") if parts.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    if proxy is None:
        return None
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_excluded((parts.hostname or "").lower(), parts.port, no_proxy.lower()):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_excluded(host: str, port: int | None, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip(), host, address, port) for entry in no_proxy.split(",") if entry.strip())


def _matches(
    entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int | None
) -> bool:
    if entry == "*":
        return True
    if "/" in entry and address is not None:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, _, wanted_port = entry.rpartition(":")
    if name and wanted_port.isdigit() and ":" not in name:
        if int(wanted_port) != port:
            return False
        entry = name
    if address is not None:
        return _address(entry) == address
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith("." + entry.removeprefix("*."))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
