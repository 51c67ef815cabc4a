"""What the outputs of a classifier are called, and a data set's labels as their numbers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import MOST_NAMES, Indices, Labels, Split, listed
from mcutrain.errors import DataError

GIVEN, OWN = "--class-names", "the model's own list"
FEWEST_TESTED = 5
"""Test samples; of fewer no order can be judged."""
FAR_BELOW = 0.5
"""Accuracy that counts as far below, as a share of chance and of what another order gives.

A list in another order has one name in its right place in the mean, which is as much as chance.
"""
FITS = 1 / 2
"""What the other order must reach, as a share of the way from chance to 1.

A network that knows none of the classes stays below it.
"""


@dataclass(frozen=True)
class Outputs:
    """A classifier's outputs, as far as they have names.

    count: how many there are. names: of each, in their order, or none. source: who says so, for
    sentences. added: names of the last ones, which the classifier gets in addition. is_new: whether
    the classifier has learnt nothing yet, so that the data's own order is right.
    """

    count: int
    names: tuple[str, ...] = ()
    source: str = OWN
    added: tuple[str, ...] = ()
    is_new: bool = False

    @staticmethod
    def of(
        count: int,
        names: Sequence[str] = (),
        given: Sequence[str] = (),
        added: Sequence[str] = (),
        is_new: bool = False,
    ) -> Outputs:
        """Return `count` outputs, the added ones among them.

        names: as the model has them, for all outputs or all but the added. given: the same by the
        user, which counts before. Raises DataError if there is not one for each output.
        """
        old = count - len(added)
        source, known = (GIVEN, tuple(given)) if given else (OWN, tuple(names))
        if len(known) == old and known:
            twice = [name for name in added if name in known]
            if twice:
                raise DataError(
                    f"the class {twice[0]!r} is in {source} already, so it cannot be added: leave "
                    "it out of --add-class"
                )
            known = (*known, *added)
        if known and len(known) != count:
            if not given:
                return Outputs(count, (), source, tuple(added), is_new)
            or_old = f", or {old} without those of --add-class" if added else ""
            raise DataError(
                f"there are {len(known)} class names but the model has {count} classes: give one "
                f"name for each, in the order of its outputs{or_old}"
            )
        return Outputs(count, known, source, tuple(added), is_new)

    def labelled(self, split: Split) -> Split:
        """The data with labels that are numbers of outputs, by their names where they have some.

        Raises DataError for classes that the outputs do not have.
        """
        if not split.is_labelled:
            return split
        if split.positions:
            self._check_positions()
            return split
        if not self.names:
            return self._unnamed(split)
        unknown = [name for name in split.names if name not in self.names]
        if not unknown:
            return split.numbered(self.names)
        if split.has_numbers_for_names and len(split.names) <= self.count:
            return split.with_names(self.names)
        raise DataError(
            f"the model does not know the class{'es' if len(unknown) > 1 else ''} "
            f"{listed(unknown)} of the data, which has {listed(split.names)}; its outputs are "
            f"{listed(self.names)}, by {self.source}: {self._way_out(split, unknown)}"
        )

    def guess(self, split: Split) -> str:
        """Say which output is taken for which class where nobody says so; empty if it is certain.

        split: as it was before `labelled`.
        """
        is_certain = self.names or self.is_new or self.added or not split.are_sorted
        if is_certain or not split.is_labelled or split.positions or split.has_numbers_for_names:
            return ""
        pairs = [f"output {i} = {name}" for i, name in enumerate(split.names[:MOST_NAMES])]
        more = ", …" if len(split.names) > len(pairs) else ""
        return (
            f"{', '.join(pairs)}{more}: the alphabetical order of the data's classes, as the model "
            "does not name its outputs; --class-names gives another"
        )

    def forgets(self, split: Split) -> str:
        """Which classes have no training sample and may be forgotten; empty if all have some.

        split: as `labelled` gives it, for a classifier that has learnt before.
        """
        if self.is_new or not split.is_labelled or split.positions:
            return ""
        trained = np.unique(split.train.y)
        old = self.count - len(self.added)
        missing = [i for i in range(old) if i not in trained]
        if not missing or not (self.added or self.names):
            return ""
        which = "any of the" if len(missing) == old else f"{len(missing)} of the"
        return (
            f"there is no training sample of {which} {old} classes that the model has learnt, and "
            "what is not trained on may be forgotten: fewer --epochs or a lower --lr forget less; "
            "samples of these classes, or remembered ones (--replay, with --after), keep them"
        )

    def _check_positions(self) -> None:
        if self.added:
            raise DataError(
                "classes are added to a classifier with one label for each sample, but the data "
                "has labels of positions: take --classes N, a new head"
            )

    def _unnamed(self, split: Split) -> Split:
        if not self.added:
            return split.with_names(split.names)  # what was guessed is decided
        old = self.count - len(self.added)
        if set(split.names) <= set(self.added):
            return split.numbered((*(f"output {i}" for i in range(old)), *self.added))
        return split.with_classes_last(self.added, old)

    def _way_out(self, split: Split, unknown: Sequence[str]) -> str:
        new = len(split.names)
        add = " ".join(f"--add-class {shlex.quote(name)}" for name in unknown[:4])
        ways = [
            f"{add} lets the classifier learn {'them' if len(unknown) > 1 else 'it'} in addition"
            if len(unknown) <= 4
            else "--add-class NAME lets the classifier learn one in addition",
            f"--classes {new} puts a new one for the data's {new} there",
            "--class-names A,B,… says what the outputs are called",
        ]
        return f"{ways[0]}, {ways[1]}, {ways[2]}"


def better_order(labels: Labels, answers: Labels, names: Sequence[str]) -> str:
    """A sentence if accuracy is far below chance while another order of outputs fits; else "".

    labels, answers: of test samples, their class and the largest output (n,). names: of the
    classes, in the order of the outputs.
    """
    classes, rows = np.unique(labels, return_inverse=True)
    outputs, columns = np.unique(answers, return_inverse=True)
    if len(classes) < 2 or len(labels) < FEWEST_TESTED:
        return ""
    chance, accuracy = 1 / len(classes), float((labels == answers).mean())
    counts = np.zeros((len(classes), len(outputs)), np.int64)
    np.add.at(counts, (rows, columns), 1)

    def is_far_better(share: float) -> bool:
        return accuracy <= FAR_BELOW * share and share >= chance + FITS * (1 - chance)

    most = min(counts.max(axis=0).sum(), counts.max(axis=1).sum()) / len(labels)
    if not is_far_better(most):
        return ""  # nor is any order: it counts each class and each output once
    found, taken = _assignment(counts)
    fitted = counts[found, taken].sum() / len(labels)
    if not is_far_better(fitted):
        return ""
    pairs = sorted(zip(outputs[taken].tolist(), classes[found].tolist(), strict=True))
    order = [f"output {output} = {names[label]}" for output, label in pairs[:MOST_NAMES]]
    more = ", …" if len(pairs) > len(order) else ""
    how = "far below chance" if accuracy < FAR_BELOW * chance else "as by chance"
    return (
        f"before training {100 * accuracy:.1f} % of the test samples are right ({how}, "
        f"{100 * chance:.0f} %), but {100 * fitted:.1f} % would be with {', '.join(order)}{more}: "
        "the data's classes seem to be in another order than the outputs; --class-names gives "
        "theirs"
    )


def _assignment(counts: Labels) -> tuple[Indices, Indices]:
    """Rows and columns, one to one, whose counts are most in all."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    rows, columns = linear_sum_assignment(counts, maximize=True)
    return rows, columns
