"""Which rules a Job's pods are made by: its defaults and the way its plan turns into pods.

A Job keeps the edition that it was started with, also when a newer vcjob takes over: a pod that is replaced
half-way looks like those that it joins. Whoever changes what a Job that is already admitted becomes raises
EDITION and has `Plan` and the defaults go on with the earlier ones for the Jobs that have them.
`tests/plan/test_edition.py` holds the present edition against what it made before.
"""

from __future__ import annotations

EDITION = 1

#: Those that this version can still make pods by.
KNOWN = frozenset({1})
