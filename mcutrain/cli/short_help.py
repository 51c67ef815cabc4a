"""Two helps of a command with many flags: --help shows the common ones, --help-all shows all."""

from __future__ import annotations

from copy import copy
from typing import Any

import typer
from typer.core import TyperCommand

from mcutrain.cli.output import say
from mcutrain.cli.panels import COMMON, MANY
from mcutrain.cli.reading import read_by

ALL = "mcutrain.help_all"
"""Where a context says that all flags are asked for."""
HELP_ALL = "--help-all"


FORMER = {"--drift": "--policy-feedback", "--swap": "--resample"}
"""Names that flags had, and have now. The former ones work until docs/stability.md has them go."""


class ShortHelp(TyperCommand):
    """A command whose --help leaves out what few calls need."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a line. A flag's former name stands for the flag, and a note says so once."""
        own = {name for parameter in self.params for name in parameter.opts}
        words = []
        for word in args:
            former, equals, value = word.partition("=")
            now = FORMER.get(former)
            words.append(f"{now}{equals}{value}" if now in own else word)
            if now in own and former not in ctx.meta:
                ctx.meta[former] = True
                say(f"mcutrain: note: {former} is called {now} now; the former name still works")
        return super().parse_args(ctx, words)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and flags, as they are read; --help-all is the last."""
        found = [*super().get_params(ctx), self._help_all(ctx)]
        read_by(getattr(self.callback, "readers", {}), found)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help that is asked for."""
        if ctx.meta.get(ALL) or not self._rare():
            super().format_help(ctx, formatter)
        else:
            self._short(ctx).format_help(ctx, formatter)

    def _rare(self) -> list[Any]:
        """Return the flags that only --help-all shows; none where all fit into one box."""
        options: list[Any] = [p for p in self.params if p.param_type_name == "option"]
        if len(options) <= MANY:
            return []
        common = COMMON.get(self.name or "", ())
        return [p for p in options if p.rich_help_panel and _flag(p) not in common]

    def _short(self, ctx: Any) -> TyperCommand:
        """Return a command for printing: the common flags, in one box."""
        rare = self._rare()
        shown: list[Any] = [copy(p) for p in self.params if p not in rare]
        for parameter in shown:
            parameter.rich_help_panel = None
        short = _Printed(
            self.name, params=shown, help=self.help, rich_markup_mode=self.rich_markup_mode
        )
        short.last = [super().get_help_option(ctx), self._help_all(ctx)]
        return short

    def _help_all(self, ctx: Any) -> Any:
        """Return the option, a copy of --help: typer's versions make options in other ways."""
        option = copy(super().get_help_option(ctx))
        assert option is not None
        option.name, option.opts = "help_all", [HELP_ALL]
        rare = len(self._rare())
        option.help, option.hidden = f"Show all flags: {rare} more.", not rare
        option.callback = _print_all
        return option


class _Printed(TyperCommand):
    """A command that is only printed."""

    last: list[Any]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its flags, and those that every command has."""
        return [*self.params, *self.last]


def _print_all(ctx: Any, _: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()


def _flag(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))
