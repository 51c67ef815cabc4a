"""How tensors of modules are named, by which any loaded file tells what its modules are.

TFLite files have no names of operators, so the name of a layer's weight says it:
PLACE/module.KIND.PART/weight.
"""

from __future__ import annotations

import re

from mcutrain_host.dataclass import dataclass

KINDS = ("adapter", "lora", "lora-fa", "lite", "gain")
_WEIGHT = re.compile(r"(?P<place>.+)/module\.(?P<kind>[a-z]+(-[a-z]+)*)\.(?P<part>[a-z]+)/weight")


DEPTHWISE = "depthwise"
"""The part of a separable lite residual that sees each channel by itself."""


@dataclass(frozen=True)
class ModulePart:
    """One layer of a module. place: the node that the module stands at. kind, part: what it is."""

    place: str
    kind: str
    part: str

    @property
    def name(self) -> str:
        """Name of the layer, and of its output."""
        return f"{self.place}/module.{self.kind}.{self.part}"

    @property
    def module(self) -> str:
        """The name of the whole module, as schemes have it."""
        return f"{self.kind}@{self.place}"

    @property
    def weight(self) -> str:
        """The name of its weight."""
        return f"{self.name}/weight"

    @property
    def bias(self) -> str:
        """The name of its bias."""
        return f"{self.name}/bias"


def module_part(weight: str) -> ModulePart | None:
    """Return what a weight of this name is; None if it belongs to no module."""
    found = _WEIGHT.fullmatch(weight)
    return None if found is None else ModulePart(found["place"], found["kind"], found["part"])


def kind_hint(word: str) -> str:
    """The end of a sentence about a word of a scheme that is a kind of module, or \"\"."""
    if word not in KINDS:
        return ""
    return f"; {word} is a kind of module: give modules with --pet, or to `mcutrain augment`"
