"""What tests draw: boards by the commit, and examples of Hypothesis, by it too where CI is set."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

SEEDS = 2**32
SLOW_SHARE = 40
"""Of so many slow tests, `make test` runs one."""

Choice = TypeVar("Choice")

# deadline=None: an example may compile C, whose time depends on the machine. Where CI is set,
# Hypothesis has defaults of its own; ours begin with those of everywhere.
DEFAULTS = settings(max_examples=100 if os.environ.get("MCUTRAIN_STRESS") else 60)
settings.register_profile("drawn", DEFAULTS, deadline=None, derandomize=False, print_blob=True)


def choose_examples(config: pytest.Config) -> int:
    """The seed of a run's examples: that of the command line, in CI the commit's, or a new one.

    Processes of pytest-xdist get that of their parent.
    """
    settings.load_profile("drawn")
    given = config.getoption("--hypothesis-seed", None)
    if given is not None:
        seed = int(given)
    elif os.environ.get("CI"):
        seed = seed_of_commit()
    else:
        seed = random.SystemRandom().randrange(SEEDS)
    config.option.hypothesis_seed = str(seed)
    return seed


def how_to_repeat(seed: int) -> str:
    """Lines for the reader of a failed test."""
    drawn = f"boards and compilers: by the commit; MCUTRAIN_SEED={seed_of_commit()} repeats them"
    return f"{drawn}\nexamples of Hypothesis: --hypothesis-seed={seed} repeats them"


def drawn_by_commit(choices: Sequence[Choice], count: int) -> list[Choice]:
    """So many of them, others with each commit: after some commits, all had their turn.

    `make stress` takes all. MCUTRAIN_SEED=N draws those of an earlier commit.
    """
    if os.environ.get("MCUTRAIN_STRESS"):
        return list(choices)
    places = random.Random(f"{seed_of_commit()} {choices}").sample(range(len(choices)), count)
    return [choices[i] for i in sorted(places)]


def left_out_of_commit(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Cases of tests marked `draws(count)` that this commit does not run."""
    tests: dict[tuple[str, int], list[pytest.Function]] = {}
    for item in items:
        marker = item.get_closest_marker("draws")
        if marker is not None and isinstance(item, pytest.Function):
            name = item.nodeid.partition("[")[0]
            tests.setdefault((name, marker.args[0]), []).append(item)
    left: set[pytest.Item] = set()
    for (name, count), cases in tests.items():
        values = [tuple(enumerate(case.callspec.id.split("-"))) for case in cases]
        kept = spread_by_commit(name, values, count)
        left |= {case for number, case in enumerate(cases) if number not in kept}
    return left


def slow_of_others(items: Sequence[pytest.Item], which: str) -> set[pytest.Item]:
    """Slow tests that a run leaves to others. which: `all`, `drawn` or `rest`, as of `--slow`.

    Of these tests, a commit draws a fortieth. The rest are the others, and nothing else.
    """
    names = [item.nodeid for item in items if item.get_closest_marker("slow")]
    drawn = set(drawn_by_commit(names, -(-len(names) // SLOW_SHARE)))
    waiting = set(names) - drawn
    if which == "rest":
        return {item for item in items if item.nodeid not in waiting}
    return {item for item in items if item.nodeid in waiting and which == "drawn"}


def spread_by_commit(name: str, cases: Sequence[tuple[Hashable, ...]], count: int) -> set[int]:
    """Numbers of so many cases, in which the values of each parameter are about as frequent."""
    if os.environ.get("MCUTRAIN_STRESS"):
        return set(range(len(cases)))
    order = list(range(len(cases)))
    random.Random(f"{seed_of_commit()} {name}").shuffle(order)
    seen: Counter[Hashable] = Counter()
    kept: set[int] = set()
    while order and len(kept) < count:
        number = min(order, key=lambda n: sum(seen[value] for value in cases[n]))
        order.remove(number)
        kept.add(number)
        seen.update(cases[number])
    return kept


@lru_cache(maxsize=1)
def seed_of_commit() -> int:
    """Of the hash of the commit, or what MCUTRAIN_SEED says; 0 where there is no commit."""
    given = os.environ.get("MCUTRAIN_SEED")
    if given is not None:
        return int(given)
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=7", "HEAD"]
    with suppress(OSError):
        return int(subprocess.run(command, capture_output=True, text=True).stdout[:7] or "0", 16)
    return 0
