"""Flags that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mcutrain.arguments import number_of_bytes
from mcutrain.errors import ArgumentError

KEEP = "keep"
AUTO = "auto"


def parse_bytes(text: str) -> int:
    """256K is 262144; K and M are 1024 and 1024², kB and MB 1000 and 1000²."""
    try:
        return number_of_bytes(text)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error


def parse_classes(text: str) -> str:
    """A number of classes, or `keep`."""
    if text != KEEP and not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a number of classes nor {KEEP!r}")
    return text


def parse_auto_classes(text: str) -> str:
    """Parse classes, or `auto`."""
    return text if text == AUTO else parse_classes(text)


def _schemes(incomplete: str) -> list[str]:
    """For a shell that completes --scheme."""
    from mcutrain.sparse.scheme import WORDS, shipped_schemes

    names = (AUTO, *WORDS, *shipped_schemes())
    return [name for name in names if name.startswith(incomplete)]


def option(help_text: str, *names: str, **more: Any) -> Any:
    """Return an option of which the help does not show the default. more: as typer.Option has."""
    return typer.Option(*names, help=help_text, show_default=False, **more)


def argument(metavar: str, help_text: str, **more: Any) -> Any:
    """Return an argument of which the help does not show the default. more: as typer has it."""
    return typer.Argument(metavar=metavar, help=help_text, show_default=False, **more)


def written(metavar: str, help_text: str) -> Any:
    """Return the option -o, which names the FILE or DIR to write."""
    return option(help_text, "--output", "-o", metavar=metavar)


Model = Annotated[
    Path,
    argument("MODEL", "An int8 .tflite or QDQ .onnx file."),
]
Project = Annotated[
    Path,
    argument("DIR", "What `mcutrain generate --board` wrote."),
]
ModelOutput = Annotated[
    Path,
    written("FILE", "The file to write; its name, .tflite or .onnx, tells the format."),
]
WHAT = (
    "head, last:K, bias:K, linear-bias:K, norm:K, full, LAYER:SHARE,… (layers as `mcutrain info` "
    "counts them), modules, "
    "the name of a shipped scheme, a .toml file, or a checkpoint or state of `simulate`, for what "
    "it trained"
)
"""What can be trained, for help texts."""
Scheme = Annotated[
    str,
    typer.Option(
        help=f"What to train: {WHAT}.",
        autocompletion=_schemes,
    ),
]
AutoScheme = Annotated[
    str | None,
    option(
        "What to train. auto, the default: what short runs or gradients of training samples say "
        f"helps most of what fits the board. Or {WHAT}.",
        autocompletion=_schemes,
    ),
]
PlannedScheme = Annotated[
    str | None,
    option(
        "What to train. auto, the default with --data: as `simulate` chooses by training samples. "
        f"Without data head is the default. Or {WHAT}.",
        autocompletion=_schemes,
    ),
]
Classes = Annotated[
    str,
    typer.Option(
        parser=parse_classes,
        metavar="N|keep",
        help="Put a new, untrained classifier with N outputs there; `keep` keeps the model's own.",
    ),
]
AutoClasses = Annotated[
    str,
    typer.Option(
        parser=parse_auto_classes,
        metavar="N|keep|auto",
        help="Put a new, untrained classifier with N outputs there. `keep` keeps the model's own; "
        "`auto` keeps it if the data has as many classes.",
    ),
]
Data = Annotated[
    Path,
    option(
        "A folder with a folder of images, sounds or tables for each class; a CSV or Parquet "
        "file with a column of labels; or an .npz file (x and y, or x_train, y_train, x_test, "
        "y_test; x alone without labels). docs/data.md says more."
    ),
]
Jobs = Annotated[
    int | None,
    option("Processes that train; one per CPU by default.", min=1),
]
SaveModel = Annotated[
    Path | None,
    option(
        "Write the model with the modules of --pet there, for `mcutrain export`.", metavar="FILE"
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 2, help="Seed of all random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def as_classes(text: str) -> int | str:
    """A number as one."""
    return text if text in (AUTO, KEEP) else int(text)


def new_classes(text: str) -> int | None:
    """The outputs of a new head, None for `keep`."""
    return None if text == KEEP else int(text)
