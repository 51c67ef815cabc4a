"""Which examples Hypothesis draws: fixed ones where CI is set, else new ones of a seed."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import settings

SEEDS = 2**32

# deadline=None: an example may compile C, whose time depends on the machine. Where CI is set,
# Hypothesis has defaults of its own; ours begin with those of everywhere.
DEFAULTS = settings.get_profile("default")
settings.register_profile("fixed", DEFAULTS, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("drawn", DEFAULTS, deadline=None, derandomize=False, print_blob=True)


def choose_examples(config: pytest.Config) -> int | None:
    """Load a profile. Returns the seed of its examples, None if they are fixed.

    A seed on the command line wins over CI. Processes of pytest-xdist get that of their parent.
    """
    given = config.getoption("--hypothesis-seed", None)
    if given is None and os.environ.get("CI"):
        settings.load_profile("fixed")
        return None
    settings.load_profile("drawn")
    seed = random.SystemRandom().randrange(SEEDS) if given is None else int(given)
    config.option.hypothesis_seed = str(seed)
    return seed


def how_to_repeat(seed: int | None) -> str:
    """A line for the reader of a failed test."""
    if seed is None:
        return "examples of Hypothesis: fixed ones; CI=1 repeats them"
    return f"examples of Hypothesis: new ones; --hypothesis-seed={seed} repeats them"
