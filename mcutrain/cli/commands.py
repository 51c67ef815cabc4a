"""All commands, by panels of --help, and how they end: with a sentence where they cannot go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any

import typer
from mcutrain_host.errors import HostError
from typer.core import TyperGroup

import mcutrain
from mcutrain.cli import (
    INTERRUPTED,
    analyze,
    augment,
    average,
    board,
    build,
    compare,
    demo,
    diff,
    doctor,
    export,
    fit,
    flash,
    fleet,
    generate,
    imprint,
    info,
    latents,
    monitor,
    operators,
    plan,
    ports,
    profile,
    proxies,
    pull,
    quantize,
    report,
    select,
    selftest,
    simulate,
    train,
    verify,
)
from mcutrain.cli.flags import spelled_out
from mcutrain.cli.output import say
from mcutrain.cli.short_help import ShortHelp
from mcutrain.errors import ITEM, McutrainError


@contextmanager
def _saying_so() -> Iterator[None]:
    """A sentence for Ctrl-C; typer's versions differ in what they do."""
    try:
        yield
    except KeyboardInterrupt:
        say("mcutrain: interrupted")
        raise typer.Exit(INTERRUPTED) from None


class _Interruptible(TyperGroup):
    """Commands that end with a sentence after Ctrl-C, while flags are read and afterwards."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Flags of all commands, read."""
        with _saying_so():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Flags of a command, and what it does."""
        with _saying_so():
            return super().invoke(ctx)


app = typer.Typer(
    name="mcutrain",
    cls=_Interruptible,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "First steps": (demo.demo, fit.fit, doctor.doctor),
    "A model": (info.info, quantize.quantize, verify.verify, operators.operators),
    "Training on this computer, and what to train": (
        simulate.simulate,
        plan.plan,
        profile.profile,
        compare.compare,
        analyze.analyze,
        select.select,
        augment.augment,
        proxies.proxies,
        report.report,
    ),
    "Onto a board": (
        generate.generate,
        build.build,
        board.board,
        flash.flash,
        selftest.selftest,
        ports.ports,
    ),
    "Training on a board": (
        train.train,
        imprint.imprint,
        latents.latents,
        monitor.monitor,
        pull.pull,
    ),
    "A trained model file": (export.export, diff.diff),
    "A fleet of boards": (average.average, fleet.fleet),
}
"""The commands of --help, in the order in which a newcomer needs them."""
for panel, functions in PANELS.items():
    for function in functions:
        app.command(rich_help_panel=panel, cls=ShortHelp)(spelled_out(function))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcutrain {mcutrain.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Train int8 networks on microcontrollers: what you simulate is what you flash.

    `mcutrain --install-completion` lets your shell complete commands and flags.

    Example: `mcutrain demo`
    """


@lru_cache(maxsize=1)
def command() -> Callable[[], None]:
    """All of them, read once in a process: that takes longer than most of what they do."""
    found: Callable[[], None] = typer.main.get_command(app)
    return found


def run() -> None:
    """Do what the process was called for: errors of the user's as one sentence."""
    try:
        command()()
    except (McutrainError, HostError) as error:
        _fail(str(error))
    except OSError as error:
        if error.strerror is None:
            raise
        _fail(f"{error.filename or 'a file'}: {error.strerror}")


def _fail(sentence: str) -> None:
    line = f"mcutrain: error: {' '.join(sentence.split())}"
    say(line.replace(ITEM, f"\n {ITEM}"))
    sys.exit(2)
