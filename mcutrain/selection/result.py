"""What selection answers: a scheme, the proof that none is better, and what more memory buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.selection.cost import Limits, Needs
from mcutrain.shown import Record, Shown
from mcutrain.sparse.scheme import UpdateScheme


@dataclass(frozen=True)
class LayerChoice:
    """One trained weight. gain: at its residual bits. state_bytes: what it keeps."""

    index: int
    name: str
    share: float
    gain: float
    state_bytes: int
    residual_bits: int


@dataclass(frozen=True)
class ModuleChoice:
    """One trained module. channels: hidden ones or rank, 0 if it has none. state_bytes: kept."""

    name: str
    channels: int
    gain: float
    state_bytes: int


@dataclass(frozen=True)
class Next:
    """The least larger budget that was found to gain more. more_bytes: of SRAM."""

    more_bytes: int
    more_gain: float
    scheme: UpdateScheme
    changes: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return a description in words."""
        return f"with {self.more_bytes:,} bytes more: {', '.join(self.changes)}"


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """The scheme with the largest expected gain under limits that hold together.

    measure: what is gained. head: it with the head alone; expected: head + gain. bias_gain: the
    biases' part. bound: no scheme gains more; optimal: whether this one gains that. binding: what
    keeps the gain from being larger. free: bytes or instructions left of each limit. solves, cuts:
    how often the solver ran, and how many schemes it proposed that did not fit. share: of the time
    of an elastic step, that keeps the mean step within the limit; None without. is_bound: whether
    the sums that it is chosen by were at most the truth wherever that was checked. published: the
    name of the scheme, where others found it on other data, and nothing was chosen.
    """

    scheme: UpdateScheme
    measure: str
    head: float
    gain: float
    bias_gain: float
    bound: float
    optimal: bool
    layers: tuple[LayerChoice, ...]
    modules: tuple[ModuleChoice, ...]
    measured: Needs
    limits: Limits
    free: Mapping[str, int]
    binding: str
    next: Next | None
    solves: int
    cuts: int
    share: float | None = None
    is_bound: bool = True
    published: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", MappingProxyType(dict(self.free)))

    @property
    def expected(self) -> float:
        """The measure that training the scheme should reach."""
        return self.head + self.gain

    def summary(self) -> str:
        """Return a line that describes it."""
        proof = "the largest possible" if self.optimal else f"at most {self.bound:.4g}"
        modules = f", {len(self.modules)} modules" if self.modules else ""
        return (
            f"the last {self.scheme.bias_depth} biases and weights of {len(self.layers)} layers"
            f"{modules}, sum of {self.measure} {self.gain:.4g} ({proof}), "
            f"{self.measured.sram_bytes:,} bytes of SRAM"
        )

    def records(self) -> list[Record]:
        """A row for each layer whose weights are trained; modules are in to_dict."""
        layers: list[Record] = self.to_dict()["layers"]
        return layers

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON; `scheme` is TOML text."""
        needs = self.measured
        return {
            "scheme": self.scheme.to_toml(),
            "bias_depth": self.scheme.bias_depth,
            "weights": dict(self.scheme.weights),
            "residual_bits": self.scheme.residual_bits,
            "bias_bits": self.scheme.bias_bits,
            "measure": self.measure,
            "head": self.head,
            "gain": self.gain,
            "expected": self.expected,
            "bound": self.bound,
            "optimal": self.optimal,
            "sums_are_bounds": self.is_bound,
            "bias_gain": self.bias_gain,
            "layers": [
                {
                    "layer": layer.index,
                    "name": layer.name,
                    "share": layer.share,
                    "gain": layer.gain,
                    "state_bytes": layer.state_bytes,
                    "residual_bits": layer.residual_bits,
                }
                for layer in self.layers
            ],
            "modules": [asdict(module) for module in self.modules],
            "sram_bytes": needs.sram_bytes,
            "arena_bytes": needs.arena_bytes,
            "state_bytes": needs.state_bytes,
            "flash_bytes": needs.flash_bytes,
            "instructions": needs.instructions,
            "peak_step": needs.peak_step,
            "peak_node": needs.peak_node,
            "limits": {
                "sram_bytes": self.limits.sram_bytes,
                "flash_bytes": self.limits.flash_bytes,
                "instructions": self.limits.instructions,
            },
            "free": dict(self.free),
            "binding": self.binding,
            "next": None
            if self.next is None
            else {
                "more_bytes": self.next.more_bytes,
                "more_gain": self.next.more_gain,
                "changes": list(self.next.changes),
                "scheme": self.next.scheme.to_toml(),
            },
            "solves": self.solves,
            "cuts": self.cuts,
            "elastic_share": self.share,
            "published": self.published,
        }


def changes(old: UpdateScheme, new: UpdateScheme) -> tuple[str, ...]:
    """Return how the second scheme differs, in words."""
    texts = []
    has_own = bool(old.layer_residual_bits or new.layer_residual_bits)
    if old.bias_depth != new.bias_depth:
        texts.append(f"the last {new.bias_depth} biases instead of {old.bias_depth}")
    for layer in sorted({*old.weights, *new.weights}, key=int):
        before, after = old.weights.get(layer, 0.0), new.weights.get(layer, 0.0)
        if before != after:
            instead = f" instead of {share_text(before)}" if before else ""
            texts.append(
                f"layer {layer} at {share_text(after)}{instead}"
                if after
                else f"layer {layer} not at all"
            )
        bits = [s.layer_residual_bits.get(layer, s.residual_bits) for s in (old, new)]
        if has_own and before and after and bits[0] != bits[1]:
            texts.append(f"layer {layer} with {bits[1]} residual bits instead of {bits[0]}")
    for module in dict.fromkeys((*old.module_channels, *new.module_channels)):
        counts = [s.module_channels.get(module) for s in (old, new)]
        if counts[0] != counts[1]:
            texts.append(_module_change(module, *counts))
    if not has_own and old.residual_bits != new.residual_bits:
        texts.append(f"{new.residual_bits} residual bits instead of {old.residual_bits}")
    if old.bias_bits != new.bias_bits:
        texts.append(f"biases of {new.bias_bits} bits instead of {old.bias_bits}")
    return tuple(texts)


def _module_change(module: str, before: int | None, after: int | None) -> str:
    if after is None:
        return f"{module} not at all"
    instead = f" instead of {before}" if before else ""
    return f"{module} of {after} channels{instead}" if after else module


def share_text(share: float) -> str:
    """0.25 as 1/4."""
    inverse = round(1 / share) if share else 0
    if inverse and abs(share * inverse - 1) < 1e-9:
        return "1" if inverse == 1 else f"1/{inverse}"
    return f"{share:g}"
