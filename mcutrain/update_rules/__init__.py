"""Rules of updates: how a gradient becomes a step. A rule is a file here and one in C.

SGD needs neither: it is what every update kernel does.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcutrain.errors import SchemeError, did_you_mean
from mcutrain.update_rules.base import AdaptingRule, ChannelGradients, Directions, Slot
from mcutrain.update_rules.momentum import Momentum
from mcutrain.update_rules.rmsprop import RMSProp

SGD = "sgd"
RULES: Mapping[str, AdaptingRule | None] = {
    SGD: None,
    Momentum.name: Momentum(),
    RMSProp.name: RMSProp(),
}
"""By the name that schemes and --update-rule give them."""

__all__ = ["RULES", "SGD", "AdaptingRule", "ChannelGradients", "Directions", "Slot", "rule_of"]


def rule_of(name: str) -> AdaptingRule | None:
    """The rule of that name; None for SGD. Raises SchemeError."""
    if name not in RULES:
        raise SchemeError(
            f"there is no update rule {name!r}: give one of {', '.join(RULES)}"
            f"{did_you_mean(name, RULES)}"
        )
    return RULES[name]
