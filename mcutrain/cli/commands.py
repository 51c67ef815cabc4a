"""All commands, by panels of --help, and how they end: with a sentence where they cannot go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from mcutrain_host.errors import HostError
from typer.core import TyperGroup

import mcutrain
from mcutrain.cli import INTERRUPTED, leaving_at_once
from mcutrain.cli.flags import spelled_out
from mcutrain.cli.output import say
from mcutrain.cli.reading import read_by
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


PANELS: dict[str, tuple[str, ...]] = {
    "First steps": ("demo", "fit", "doctor"),
    "A model and data": ("info", "data", "snap", "quantize", "verify", "operators"),
    "Training on this computer, and what to train": (
        *("simulate", "plan", "profile", "compare", "analyze"),
        *("select", "augment", "whiten", "proxies", "report", "watch"),
    ),
    "Onto a board": ("generate", "build", "board", "flash", "selftest", "ports"),
    "Training on a board": ("train", "teach", "imprint", "latents", "monitor", "pull"),
    "A trained model file": ("export", "diff"),
    "A fleet of boards": ("average", "fleet"),
}
"""The commands of --help, in the order in which a newcomer needs them. Each is a module."""
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
_STYLE: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": "markdown"}


class _Commands(Mapping[str, Any]):
    """All commands by name. One is imported when it is asked for, which takes a while."""

    def __getitem__(self, name: str) -> Any:
        if name not in _PANEL_OF:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_PANEL_OF)

    def __len__(self) -> int:
        return len(_PANEL_OF)


@cache
def _command(name: str) -> Any:
    """Return a command as typer calls it."""
    with leaving_at_once():
        function = getattr(import_module(f"mcutrain.cli.{name}"), name)
    alone = typer.Typer(add_completion=False, **_STYLE)
    alone.command(rich_help_panel=_PANEL_OF[name], cls=ShortHelp)(spelled_out(function))
    return typer.main.get_command(alone)


class _Interruptible(TyperGroup):
    """Commands that end with a sentence after Ctrl-C, while flags are read and afterwards."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the flags before a command's name."""
        found = super().get_params(ctx)
        read_by({}, found)
        return found

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Flags of all commands, read."""
        with _saying_so():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Flags of a command, and what it does."""
        with _saying_so():
            return super().invoke(ctx)


app = typer.Typer(name="mcutrain", cls=_Interruptible, no_args_is_help=True, **_STYLE)


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


@cache
def command() -> Any:
    """Return what runs the command that a line names, as typer has it."""
    return typer.main.get_command(app)


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
