"""Which flags stand together in the help of a command that has many."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from inspect import Parameter
from typing import Annotated, Any

from typer.models import OptionInfo

MANY = 17
"""Options that fit into one box."""
MEMORY = "Memory and time"
NOT_WORTH_IT = "Experiments that did not pay (docs/commands.md says when they might)"
PANELS = {
    "Reading the data": (
        *("--samples", "--test-samples", "--gradient-samples", "--test-share"),
        *("--mean", "--std", "--stride", "--class-names"),
    ),
    "The network, and what is learnt": (
        *("--pet", "--add-class", "--loss", "--accumulate", "--gate", "--no-qas", "--channels"),
        *("--head-rate", "--head-start", "--update-rule", "--imprint", "--model-output"),
    ),
    "Training": (
        *("--epochs", "--head-epochs", "--lr", "--schedule", "--warmup", "--seeds"),
        *("--flip", "--crop", "--augment", "--versions", "--test-every"),
        *("--ways", "--shots", "--episodes", "--replay", "--remember"),
    ),
    "Choosing a scheme": ("--measure", "--sweep", "--train", "--finalists"),
    MEMORY: (
        *("--gradient-bits", "--residual-bits", "--head-residual-bits", "--bias-bits"),
        *("--layer-bits", "--stream", "--part", "--latent"),
        *("--sram", "--flash", "--instructions", "--step-time"),
    ),
    NOT_WORTH_IT: (
        *("--elastic", "--every", "--importance", "--profile", "--swap"),
        *("--proxies", "--drift", "--batches"),
    ),
    "The board": ("--slots", "--timed", "--baud", "--save-every", "--reconnect", "--patience"),
    "On this computer": (
        *("--reference", "--portable", "--jobs", "--backend", "--scheduler", "--no-build"),
        *("--here", "--count"),
    ),
    "Files": (
        *("--checkpoint", "--after", "--save-state", "--save-model", "--log", "--tensorboard"),
        *("--state", "--from", "--fresh", "--model", "--csv", "--picture"),
        *("--prefix", "--isa"),
    ),
}
"""Flags by box of the help, in order. Flags that most calls give are in none, and come first."""
COMMON = {
    "simulate": ("--epochs", "--lr", "--samples", "--augment", "--sram", "--checkpoint"),
    "plan": ("--sram", "--part", "--csv", "--picture"),
    "profile": ("--count", "--here"),
    "compare": ("--epochs", "--lr", "--samples", "--seeds", "--pet", "--sram", "--jobs"),
    "analyze": ("--samples", "--epochs", "--lr", "--jobs"),
    "select": ("--sram", "--flash", "--step-time", "--measure", "--finalists", "--jobs"),
    "proxies": ("--samples",),
    "generate": ("--part", "--latent", "--remember", "--imprint", "--prefix", "--isa"),
    "train": ("--epochs", "--lr", "--samples", "--augment", "--replay", "--log", "--state"),
    "export": ("--state",),
    "quantize": ("--samples",),
}
"""Flags of boxes that --help shows, too, by command; --help-all shows all."""
TITLES = {flag: title for title, flags in PANELS.items() for flag in flags}


def flag_of(name: str, hint: Any) -> str:
    """As a user types it: as it is declared, or as the parameter is called."""
    info = hint.__metadata__[0]
    declared = (info.default, *(info.param_decls or ()))  # typer takes the first for a default
    long = (flag for flag in declared if str(flag).startswith("--"))
    return next(long, f"--{name.replace('_', '-')}")


def in_panels(parameters: Sequence[Parameter]) -> list[Parameter]:
    """A command's parameters by the panels of its help, if it has many options."""
    options = [p for p in parameters if option_of(p) is not None]
    if len(options) <= MANY:
        return list(parameters)
    order = ["", *PANELS]
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
    return info.rich_help_panel or TITLES.get(flag_of(parameter.name, parameter.annotation), "")


def _with_title(parameter: Parameter, title: str) -> Parameter:
    """A copy: other commands have the same flag."""
    info = option_of(parameter)
    if info is None or not title:
        return parameter
    own = copy(info)
    own.rich_help_panel = title
    return parameter.replace(annotation=Annotated[parameter.annotation.__origin__, own])
