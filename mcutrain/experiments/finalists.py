"""The last round of a selection: proposals are trained, the best on held-out samples wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.analysis.problem import held_out
from mcutrain.data import Dataset, Split
from mcutrain.errors import DataError
from mcutrain.experiments.parallel import Lesson, Standing, Trial, train_all
from mcutrain.experiments.results import score
from mcutrain.selection.proposals import Proposal

MOST_TESTS = 2000
"""Held-out samples; twice as many would tell little more."""
LEAST_TESTS = 20


@dataclass(frozen=True)
class Finalist:
    """A proposal and its accuracy on samples that neither trained it nor belong to the test set.

    Of real targets R² stands in the place of accuracy. learning_rate: that it was trained with.
    """

    proposal: Proposal
    accuracy: float
    learning_rate: float | None = None


def part(
    train: Dataset, samples: int | None = None, seed: int = 0, validation: Dataset | None = None
) -> Split:
    """Training samples, drawn: a fifth of them, 2,000 at most, of every class alike, are held out.

    samples: how many of the others to train on, None is all. The data's own test samples must not
    choose a scheme. validation: what to test on instead, if the data set has such a part. Raises
    DataError if there are too few.
    """
    if validation is not None:
        tests = min(MOST_TESTS, len(validation))
        trained = len(train) if samples is None else min(samples, len(train))
        return held_out(train, trained, tests, seed, validation)
    tests = min(MOST_TESTS, len(train) // 5)
    if tests < LEAST_TESTS:
        raise DataError(
            f"the data set has {len(train)} training samples, a fifth of which are too few to "
            f"choose between schemes: {5 * LEAST_TESTS} are needed; leave out --finalists"
        )
    rest = len(train) - tests
    return held_out(train, rest if samples is None else min(samples, rest), tests, seed)


def trained(
    proposals: Sequence[Proposal],
    lesson: Lesson,
    jobs: int,
    report: Callable[[Standing], None] = lambda _: None,
) -> list[Finalist]:
    """Every proposal after training, the best first; of equal ones the first proposed.

    lesson: its schemes are replaced by the proposals'. An interrupted call continues.
    """
    schemes = tuple(proposal.selection.scheme for proposal in proposals)
    trials = [Trial(i, lesson.settings.seed) for i in range(len(schemes))]
    results = train_all(replace(lesson, schemes=schemes), trials, jobs, report)
    found = [
        Finalist(p, score(r), r.learning_rate) for p, r in zip(proposals, results, strict=True)
    ]
    return sorted(found, key=lambda finalist: -finalist.accuracy)
