"""Every error a user can cause, in one tree.

    McutrainError
    ├── ArgumentError         an argument of a function makes no sense
    │   └── OptionError       one option does not go with others
    ├── ModelError            the model file cannot be used
    │   └── UnsupportedError  it is sound, but uses something mcutrain does not know
    ├── DataError             the data set cannot be used, or does not fit the model
    │   └── NoiseError        the outputs of an int8 model are noise
    ├── SchemeError           the update scheme does not fit the model
    ├── AnalysisError         the contribution analysis is unreadable, or of another model
    ├── PlanError             the memory plan is wrong or does not fit
    ├── TargetError           the board is unknown, or its board.toml is wrong
    ├── BuildError            the C compiler is missing or refused the code
    ├── StateError            a saved state is of another model, scheme or version
    └── ReportError           a report cannot be read or drawn

The command line prints the message of any of them as one sentence and exits with 2.
A message says what is wrong, where (the node's, file's or key's name), and what to do. One that
lists several things has `ITEM` before each; the command line begins a line there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

ITEM = " • "


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the known one that is most like it, or \"\"."""
    found = get_close_matches(word.lower(), {k.lower(): k for k in known}, n=1)
    return next((f"; did you mean {k!r}?" for k in known if [k.lower()] == found), "")


def some_of(names: Iterable[str], most: int = 8) -> str:
    """The first names, as a sentence has them, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


ONE_INPUT = (
    "one is supported: export it with the others as constants, as masks and types of tokens can "
    "be; or, if all are float, give the float model to `mcutrain quantize`, which makes one input "
    "of them"
)
"""What to do about a model of several inputs."""


class McutrainError(Exception):
    """Base of all errors caused by what the user gave."""


class ArgumentError(McutrainError):
    """An argument of a function is of a wrong type, out of range, or goes with another one."""


class OptionError(ArgumentError):
    """One option has a value that does not go with others. why: the reason, and what to do.

    It names others by their flags, such as --data, for the command line, which says it of the
    option's flag. The message itself names keywords.
    """

    def __init__(self, option: str, why: str) -> None:
        plain = re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), why)
        super().__init__(f"{option} {plain}")
        self.option, self.why = option, why


class ModelError(McutrainError):
    """The model file is corrupt, inconsistent, or not an int8 model."""


class UnsupportedError(ModelError):
    """The model is valid but needs an operator or option that is not supported."""


class DataError(McutrainError):
    """The data set is unreadable, or its shapes or labels do not fit the model."""


class NoiseError(DataError):
    """The outputs of an int8 model are noise. layers: the error of each, if they were measured."""

    def __init__(self, text: str, layers: tuple[Any, ...] = ()) -> None:
        super().__init__(text)
        self.layers = layers


class SchemeError(McutrainError):
    """The update scheme names layers, shares or depths that the model does not have."""


class AnalysisError(McutrainError):
    """A contribution analysis cannot be read, or was made for another model or measure."""


class PlanError(McutrainError):
    """A memory plan overlaps, overruns, or exceeds its budget."""


class TargetError(McutrainError):
    """There is no such board, or its description is incomplete."""


class BuildError(McutrainError):
    """No C compiler was found, or the generated code did not compile."""


class StateError(McutrainError):
    """A saved training state does not belong to this model and scheme."""


class ReportError(McutrainError):
    """A report's folder or values cannot be read, or what draws its charts is not installed."""
