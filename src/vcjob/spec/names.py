"""Kubernetes' rules for names. Each check returns what is wrong, as the end of a sentence that begins with
the name, or None."""

from __future__ import annotations

import re

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(DNS_LABEL)
_SUBDOMAIN = re.compile(rf"{DNS_LABEL}(\.{DNS_LABEL})*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def dns_label(name: str) -> str | None:
    """RFC 1123: a container, a volume, a task, a hostname."""
    return _misfit(name, LABEL_LENGTH, _DNS_LABEL, "lower-case letters, digits and `-`")


def service_name(name: str) -> str | None:
    """RFC 1035: as a label, but the first character is a letter."""
    reason = dns_label(name)
    if reason is None and not name[0].isalpha():
        return "must begin with a letter"
    return reason


def dns_subdomain(name: str) -> str | None:
    """Most objects' names: labels joined by dots."""
    return _misfit(name, SUBDOMAIN_LENGTH, _SUBDOMAIN, "lower-case letters, digits, `-` and `.`")


def label_value(value: str) -> str | None:
    return _misfit(value, LABEL_LENGTH, _QUALIFIED, "letters, digits, `-`, `_` and `.`") if value else None


def _misfit(name: str, most: int, form: re.Pattern[str], characters: str) -> str | None:
    if not name:
        return "must not be empty"
    if len(name) > most:
        return f"is {len(name)} characters long; at most {most} are allowed"
    if not form.fullmatch(name):
        return f"must consist of {characters}, and begin and end with a letter or digit"
    return None
