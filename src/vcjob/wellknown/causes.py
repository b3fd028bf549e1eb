"""Causes: the stable CamelCase words in the findings of `vcjob why`."""

from __future__ import annotations

from vcjob.wellknown.definition import Definitions

CAUSES: Definitions[str] = Definitions()
