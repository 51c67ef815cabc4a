"""What an update scheme takes of a device: the words between selection and memory planning.

Selection asks functions for these values; it has no formula of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType

from mcutrain_host.dataclass import dataclass

from mcutrain.sparse.scheme import UpdateScheme
from mcutrain.update_rules import SGD


@dataclass(frozen=True)
class Span:
    """Aligned bytes alive from step `first` to step `last`, both included."""

    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class FlashPart:
    """Bytes in flash. is_certain: whether no other scheme could share them by chance."""

    size_bytes: int
    is_certain: bool = True


UNNAMED = "~"
"""Begins the name of a step whose memory is not compared."""


@dataclass(frozen=True)
class SchemeCost:
    """A scheme's memory before its buffers have offsets, and its work.

    steps: the nodes' names in execution order; UNNAMED where schemes do not mean the same. spans:
    the arena's buffers. state: bytes of each state tensor. flash: parts by content; what is equal
    lies there once. work: instructions of each node in one step, by its name.
    """

    steps: tuple[str, ...]
    spans: tuple[Span, ...]
    state: Mapping[str, int]
    flash: Mapping[Hashable, FlashPart]
    work: Mapping[str, int]

    @property
    def instructions(self) -> int:
        """Instructions of one step."""
        return sum(self.work.values())

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", MappingProxyType(dict(self.state)))
        object.__setattr__(self, "flash", MappingProxyType(dict(self.flash)))
        object.__setattr__(self, "work", MappingProxyType(dict(self.work)))


@dataclass(frozen=True)
class Needs:
    """What a planned scheme really takes.

    arena_bytes, state_bytes: of sram_bytes. flash_bytes: rather more than it is, unless it
    was_built.
    """

    sram_bytes: int
    arena_bytes: int
    state_bytes: int
    flash_bytes: int
    instructions: int
    peak_step: int
    peak_node: str
    was_built: bool = False


@dataclass(frozen=True)
class Limits:
    """What a device has; None is no limit. sram_bytes: with all that firmware takes besides.

    slots_flash_bytes: more than flash_bytes, if the slots for the trained state are given up.
    """

    sram_bytes: int | None = None
    flash_bytes: int | None = None
    instructions: int | None = None
    slots_flash_bytes: int = 0


CostFunction = Callable[[UpdateScheme], SchemeCost]
PlanFunction = Callable[[UpdateScheme], Needs]
BuildFunction = Callable[[UpdateScheme], Needs | None]


@dataclass(frozen=True)
class CostModel:
    """How schemes are costed.

    cost: fast, never more than the truth. plan: for real. build: what a compiler makes of the
    scheme that plan found to fit; None if it does not link. It is called for a winner only, and
    more than once: all three should remember what they found. fixed_sram_bytes, fixed_flash_bytes:
    what firmware takes besides what cost says, never more than the truth either. bias_bits: what
    biases may have, of which selection takes one. layer_bits: whether each layer may have residual
    bits of its own. update_rule: of all schemes.
    """

    cost: CostFunction
    plan: PlanFunction
    build: BuildFunction | None = None
    fixed_sram_bytes: int = 0
    fixed_flash_bytes: int = 0
    bias_bits: tuple[int, ...] = (UpdateScheme.bias_bits,)
    layer_bits: bool = False
    update_rule: str = SGD
