"""What a frame takes on a device: firmware/frontends/costs.toml, which benchmarks fit to counts.

It has a table for each front end and set of costs, as those of kernels in firmware/costs are named:
instructions for each unit of the front end's `work`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import mcutrain_firmware

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

FILE = Path(mcutrain_firmware.__file__).parent / "frontends" / "costs.toml"


@cache
def tables() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Instructions of each unit, by front end and set of costs."""
    return MappingProxyType(tomllib.loads(FILE.read_text(encoding="utf-8")))


def instructions(kind: str, work: Mapping[str, int]) -> Mapping[str, int]:
    """Instructions by set of costs; none of a front end that was not counted."""
    return {
        isa: round(sum(cost * work[name] for name, cost in costs.items()))
        for isa, costs in tables().get(kind, {}).items()
    }
