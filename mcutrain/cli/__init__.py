"""The command line: flags in, pipeline out. Every command is a file of this package.

What a user can cause ends with one sentence on stderr and exit code 2; Ctrl-C with 130.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Annotated, ParamSpec

import typer
from mcutrain_host.errors import HostError

import mcutrain
from mcutrain.cli import (
    analyze,
    augment,
    board,
    build,
    compare,
    demo,
    diff,
    doctor,
    export,
    flash,
    generate,
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
    simulate,
    train,
    verify,
)
from mcutrain.cli.flags import spelled_out
from mcutrain.cli.output import INTERRUPTED, say
from mcutrain.errors import ITEM, McutrainError

P = ParamSpec("P")


def _interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """The command with a sentence for Ctrl-C; typer's versions differ in what they do."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            say("mcutrain: interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return run


app = typer.Typer(
    name="mcutrain",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "First steps": (demo.demo, doctor.doctor),
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
        ports.ports,
    ),
    "Training on a board": (train.train, latents.latents, monitor.monitor, pull.pull),
    "A trained model file": (export.export, diff.diff),
}
"""The commands of --help, in the order in which a newcomer needs them."""
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(_interruptible(spelled_out(command)))


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
def _commands() -> Callable[[], None]:
    """All of them, read once in a process: that takes longer than most of what they do."""
    commands: Callable[[], None] = typer.main.get_command(app)
    return commands


def main() -> None:
    """The entry point: errors of the user's as one sentence."""
    try:
        _commands()()
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
