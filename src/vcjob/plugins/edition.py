"""The edition of a plan: which rules turn an admitted Job into pods.

A Job keeps the edition that it was started with, also when a newer vcjob takes over, so that a pod that is
replaced later looks like the pods that it joins. Whoever changes what an admitted Job becomes adds an edition
here and keeps the earlier behaviour for the Jobs that have an earlier one. The controller stores the number in
the status; `tests/plan/test_edition.py` compares each edition with what it made before.

==  ============================================================================
1   as Volcano 1.16
2   a pod that runs one rank gets LOCAL_RANK=0 and LOCAL_WORLD_SIZE=1
==  ============================================================================
"""

from __future__ import annotations

#: The edition of Jobs that start now.
EDITION = 2
#: The edition of Jobs that were started before editions existed, or by Volcano itself.
FIRST = 1
#: From this edition on, a pod of one rank gets LOCAL_RANK and LOCAL_WORLD_SIZE.
LOCAL_RANK = 2

#: The editions that this version can make pods for.
KNOWN = frozenset({1, 2})
