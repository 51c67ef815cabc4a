"""Which flags stand together in the help of a command that has many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache
from inspect import Parameter
from typing import Annotated, Any

from typer.models import OptionInfo

from mcutrain.functions.keywords import (
    BOARD,
    COMPUTER,
    MEMORY,
    NETWORK,
    NOT_WORTH_IT,
    Flag,
    Keywords,
    flag_name,
    flags_of,
)

MANY = 17
"""Options that fit into one box."""
_OWN = {
    "Reading the data": (
        *("--samples", "--test-samples", "--gradient-samples", "--test-share"),
        *("--mean", "--std", "--stride", "--class-names", "--pixels"),
    ),
    NETWORK: ("--channels", "--head-start", "--imprint", "--model-output"),
    "Training": (
        *("--epochs", "--head-epochs", "--lr", "--schedule", "--warmup", "--seeds"),
        *("--test-every", "--ways", "--shots", "--episodes", "--replay", "--remember"),
    ),
    "Varying the samples": ("--flip", "--crop", "--augment", "--background", "--versions"),
    "Choosing a scheme": ("--measure", "--sweep", "--train", "--finalists"),
    MEMORY: (
        *("--layer-bits", "--part", "--latent"),
        *("--sram", "--flash", "--instructions", "--step-time"),
    ),
    NOT_WORTH_IT: (
        "--proxies",
        "--elastic",
        "--every",
        "--importance",
        "--profile",
        "--resample",
        "--batches",
    ),
    BOARD: (
        *("--timed", "--baud", "--save-every", "--reconnect", "--patience"),
        *("--live", "--web", "--web-port"),
    ),
    COMPUTER: ("--reference", "--portable", "--jobs", "--backend", "--scheduler", "--no-build"),
    "Files": (
        *("--checkpoint", "--after", "--save-state", "--save-model", "--log", "--tensorboard"),
        *("--state", "--from", "--fresh", "--model", "--csv", "--picture"),
        *("--prefix", "--isa"),
    ),
}
"""Boxes of the help, in order, and flags of them that no class of options declares."""


def _declared() -> Iterator[tuple[str, str]]:
    """Flags of mcutrain.functions.options, each with its box."""
    from mcutrain.functions import board_options, options, quantize_options, run_options

    modules = (options, run_options, quantize_options, board_options)
    for kind in (kind for module in modules for kind in vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, Keywords) and kind is not Keywords:
            for name, flag in flags_of(kind).items():
                yield flag_name(name, flag), flag.box


_OWN_TITLES = {flag: title for title, flags in _OWN.items() for flag in flags}


@cache
def flags_of_boxes() -> dict[str, tuple[str, ...]]:
    """Flags by box of the help, in order. Flags that most calls give are in none: they come first.

    All options are imported for it, which only a help needs.
    """
    declared = tuple(dict.fromkeys(_declared()))
    return {
        title: tuple(dict.fromkeys((*(f for f, box in declared if box == title), *flags)))
        for title, flags in _OWN.items()
    }


COMMON = {
    "fit": ("--minutes", "--pixels", "--epochs", "--lr", "--samples", "--augment", "--sram"),
    "simulate": ("--epochs", "--lr", "--samples", "--augment", "--sram", "--checkpoint"),
    "plan": ("--sram", "--part", "--csv", "--picture"),
    "profile": ("--count", "--here"),
    "compare": ("--epochs", "--lr", "--samples", "--seeds", "--pet", "--sram", "--jobs"),
    "analyze": ("--samples", "--epochs", "--lr", "--jobs"),
    "select": ("--sram", "--flash", "--step-time", "--measure", "--finalists", "--jobs"),
    "proxies": ("--samples",),
    "generate": ("--part", "--latent", "--remember", "--imprint", "--prefix", "--isa"),
    "train": ("--epochs", "--lr", "--samples", "--augment", "--replay", "--log", "--live", "--web"),
    "export": ("--state",),
    "quantize": ("--samples",),
    "imprint": ("--samples",),
}
"""Flags of boxes that --help shows, too, by command; --help-all shows all."""


def flag_of(name: str, hint: Any) -> str:
    """As a user types it: as it is declared, or as the parameter is called."""
    info = next(each for each in hint.__metadata__ if isinstance(each, Flag | OptionInfo))
    if isinstance(info, Flag):
        return flag_name(name, info)
    declared = (info.default, *(info.param_decls or ()))  # typer takes the first for a default
    long = (flag for flag in declared if str(flag).startswith("--"))
    return str(next(long, f"--{name.replace('_', '-')}"))


def in_panels(parameters: Sequence[Parameter]) -> list[Parameter]:
    """A command's parameters by the panels of its help, if it has many options."""
    options = [p for p in parameters if option_of(p) is not None]
    if len(options) <= MANY:
        return list(parameters)
    order = ["", *_OWN]
    titled = [(_title(p), p) for p in parameters]
    titled.sort(key=lambda pair: order.index(pair[0]))  # stable
    return [_with_title(p, title) for title, p in titled]


def option_of(parameter: Parameter) -> OptionInfo | None:
    """Return what a parameter declares as a flag; None for an argument."""
    found = getattr(parameter.annotation, "__metadata__", (None,))[0]
    return found if isinstance(found, OptionInfo) else None


def _title(parameter: Parameter) -> str:
    info = option_of(parameter)
    if info is None:
        return ""
    declared = next((m for m in parameter.annotation.__metadata__ if isinstance(m, Flag)), None)
    if declared is not None and declared.box:
        return declared.box
    return info.rich_help_panel or _OWN_TITLES.get(
        flag_of(parameter.name, parameter.annotation), ""
    )


def _with_title(parameter: Parameter, title: str) -> Parameter:
    """A copy: other commands have the same flag."""
    info = option_of(parameter)
    if info is None or not title:
        return parameter
    own = copy(info)
    own.rich_help_panel = title
    return parameter.replace(annotation=Annotated[parameter.annotation.__origin__, own])
