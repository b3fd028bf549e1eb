"""Kubernetes' rules for names. Each check returns what is wrong, in words that follow the name, or None."""

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
    if not name:
        return "must not be empty"
    if len(name) > LABEL_LENGTH:
        return f"is {len(name)} characters long; at most {LABEL_LENGTH} are allowed"
    if not _DNS_LABEL.fullmatch(name):
        return "must consist of lower-case letters, digits and `-`, and begin and end with a letter or digit"
    return None


def service_name(name: str) -> str | None:
    """RFC 1035: as a label, but the first character is a letter."""
    reason = dns_label(name)
    if reason is None and not name[0].isalpha():
        return "must begin with a letter"
    return reason


def dns_subdomain(name: str) -> str | None:
    """Most objects' names: labels joined by dots."""
    if not name:
        return "must not be empty"
    if len(name) > SUBDOMAIN_LENGTH:
        return f"is {len(name)} characters long; at most {SUBDOMAIN_LENGTH} are allowed"
    if not _SUBDOMAIN.fullmatch(name):
        return "must consist of lower-case letters, digits, `-` and `.`, and begin and end with a letter or digit"
    return None


def label_value(value: str) -> str | None:
    if len(value) > LABEL_LENGTH:
        return f"is {len(value)} characters long; at most {LABEL_LENGTH} are allowed"
    if value and not _QUALIFIED.fullmatch(value):
        return "must consist of letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit"
    return None


def label_key(key: str) -> str | None:
    """A qualified name: `name` or `example.com/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and (reason := dns_subdomain(prefix)):
        return f"has a bad prefix before `/`: it {reason}"
    if not name:
        return "must not be empty"
    return label_value(name)
