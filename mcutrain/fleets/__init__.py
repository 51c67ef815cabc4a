"""Fleets: what many boards learnt, added up exactly, as one state for all of them.

A board's contribution is the difference of its trained numbers to the state that its round began
with, the base. Differences are integers and are added in int64, so a sum is the same in any order
and over any tree of gateways. It is the federated averaging of McMahan et al., 2017, algorithm 1,
in integers.
"""

from mcutrain.fleets.average import (
    ROUNDINGS,
    averaged,
    check_round,
    on_time,
    trimmed,
    with_momentum,
)
from mcutrain.fleets.contribution import Contribution
from mcutrain.fleets.numbers import FleetLayout, TrainedNumbers
from mcutrain.fleets.schemes import of_scheme

__all__ = [
    "ROUNDINGS",
    "Contribution",
    "FleetLayout",
    "TrainedNumbers",
    "averaged",
    "check_round",
    "of_scheme",
    "on_time",
    "trimmed",
    "with_momentum",
]
