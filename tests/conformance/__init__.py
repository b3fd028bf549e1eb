"""Volcano's own end-to-end suites, unmodified, run against Volcano itself and against our controller and webhook.

``make conformance`` (``python -m tests.conformance``); docs/testbed.md says more. What ours does differently on purpose stands
in docs/compatibility.md, and a run fails if there is one difference more or one fewer.
"""
