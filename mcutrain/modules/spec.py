"""Which modules, and where: `adapter:8`, `lora-fa:4,at=last:3`, `gain,adapter:8`."""

from __future__ import annotations

import re
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError, did_you_mean
from mcutrain.sparse.module_names import KINDS

RANKED = ("adapter", "lora", "lora-fa")
"""Kinds that take a number of channels."""
LITE = "lite"
KERNELS = (1, 3, 5)
NOT_MODULES = {
    "bias": "biases are there already: leave out modules, and train with --scheme bias:K",
    "linear": "the classifier is there already: leave out modules, and train with --scheme head",
    "head": "the classifier is there already: leave out modules, and train with --scheme head",
}
STARTS = ("principal", "random")
UPS = ("nearest", "bilinear")
SEPARABLE = ("no", "yes")
EXPANDS = {"1/4": 0.25, "1/2": 0.5, "1": 1.0}
OPTIONS = ("at", "start")
LITE_OPTIONS = (*OPTIONS, "groups", "separable", "expand", "up")
EXAMPLE = "adapter:R, lora:R, lora-fa:R, lite:K or gain, joined by commas, each with ,at=PLACES"
MOST_RANK = 4096


@dataclass(frozen=True)
class ModuleSpec:
    """One kind of module, and where it is put.

    rank: hidden channels, or the rank of the update; 0 where the kind has none. last: at the last
    so many places only; None is all. names: at these nodes only, by name or layer number. start:
    the fixed or first projection: principal directions of its input, or random ones. Of a lite
    residual: kernel, groups: of its first convolution; separable makes a depthwise and a 1×1 one of
    that. expand: hidden channels, of EXPANDS, for each that it reads. up: how it becomes as large
    as the block's output, of UPS.
    """

    kind: str
    rank: int = 0
    last: int | None = None
    names: tuple[str, ...] = ()
    start: str = "principal"
    kernel: int = 0
    groups: int = 1
    expand: str = "1/4"
    up: str = "nearest"
    separable: bool = False

    @property
    def text(self) -> str:
        """As parse_modules reads it."""
        number = f":{self.rank or self.kernel}" if self.rank or self.kernel else ""
        if self.kernel:
            form = "separable=yes" if self.separable else f"groups={self.groups}"
            number += f",{form},expand={self.expand},up={self.up}"
        places = f",at=last:{self.last}" if self.last is not None else ""
        places = f",at={'+'.join(self.names)}" if self.names else places
        return self.kind + number + places + (",start=random" if self.start == "random" else "")


def parse_modules(text: str) -> tuple[ModuleSpec, ...]:
    """Modules from text. Raises SchemeError.

    KIND[:NUMBER], joined by commas. OPTION=VALUE behind a kind belongs to it: at=last:K or
    at=LAYER+LAYER+…, start=principal or random. lite also has groups=G or separable=yes,
    expand=1/4, 1/2 or 1, and up=nearest or bilinear. Each kind once.
    """
    modules: list[tuple[str, dict[str, str]]] = []
    for part in text.split(","):
        option, is_option, value = part.partition("=")
        if not is_option:
            modules.append((part, {}))
        elif not modules or option in modules[-1][1]:
            where = "is there twice" if modules else "comes before any kind"
            raise _wrong(text, f"the option {part!r} {where}")
        else:
            modules[-1][1][option] = value
    specs = tuple(_spec(text, what, options) for what, options in modules)
    for kind in {spec.kind for spec in specs}:
        if [spec.kind for spec in specs].count(kind) > 1:
            raise _wrong(text, f"{kind} is there twice")
    if {"lora", "lora-fa"} <= {spec.kind for spec in specs}:
        raise _wrong(text, "lora and lora-fa change the same layers: take one of them")
    return specs


def _spec(text: str, what: str, options: dict[str, str]) -> ModuleSpec:
    kind, _, number = what.partition(":")
    if kind in NOT_MODULES:
        raise _wrong(text, NOT_MODULES[kind])
    if kind not in KINDS:
        raise _wrong(text, f"there is no module {kind!r}{did_you_mean(kind, KINDS)}")
    rank = 0
    if kind in RANKED:
        if not re.fullmatch(r"[1-9]\d{0,3}", number) or int(number) > MOST_RANK:
            raise _wrong(text, f"{kind} needs a number from 1 to {MOST_RANK}, as in {kind}:4")
        rank = int(number)
    elif kind != LITE and what != kind:
        raise _wrong(text, f"{kind} takes no number")
    known = LITE_OPTIONS if kind == LITE else OPTIONS
    for option in sorted(options.keys() - set(known)):
        raise _wrong(text, f"{kind} has no option {option!r}{did_you_mean(option, known)}")
    last, names = _places(text, options.get("at"))
    spec = ModuleSpec(kind, rank, last, names, _one_of(text, options, "start", STARTS))
    return _lite(text, number, options, spec) if kind == LITE else spec


def _lite(text: str, number: str, options: dict[str, str], spec: ModuleSpec) -> ModuleSpec:
    """Parse what only lite residuals have."""
    if number not in map(str, KERNELS):
        raise _wrong(text, "lite needs the size of its first convolution, 1, 3 or 5, as in lite:3")
    expand = _one_of(text, options, "expand", tuple(EXPANDS))
    up, separable = (
        _one_of(text, options, n, of) for n, of in (("up", UPS), ("separable", SEPARABLE))
    )
    groups = options.get("groups", "1")
    if not re.fullmatch(r"[1-9]\d{0,3}", groups):
        raise _wrong(text, f"groups is {groups!r}; it is a number from 1, as in groups=2")
    if separable == "yes" and int(groups) > 1:
        raise _wrong(text, "a separable lite residual has no groups: leave out one of them")
    return replace(
        spec,
        kernel=int(number),
        groups=int(groups),
        expand=expand,
        up=up,
        separable=separable == "yes",
    )


def _one_of(text: str, options: dict[str, str], option: str, values: tuple[str, ...]) -> str:
    """Return what an option says, or the first of the values."""
    found = options.get(option, values[0])
    if found not in values:
        raise _wrong(text, f"{option} is {found!r}; it is {' or '.join(values)}")
    return found


def _places(text: str, at: str | None) -> tuple[int | None, tuple[str, ...]]:
    if at is None or at == "all":
        return None, ()
    match = re.fullmatch(r"last:([1-9]\d{0,3})", at)
    if match:
        return int(match[1]), ()
    names = tuple(at.split("+"))
    if "" in names or at.startswith("last"):
        raise _wrong(text, f"at={at} names no places; give at=last:3, or layers as in at=20+22")
    return None, names


def _wrong(text: str, why: str) -> SchemeError:
    return SchemeError(f"the modules {text!r}: {why}; give {EXAMPLE}")
