"""Splits by groups: no speaker, person or session is on both sides.

A group is said by a pattern that file names match, by a column of a table, or by an array.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import Indices, Labels, raw_draws, stratified
from mcutrain.errors import DataError

GROUP = "group"
"""The name of the part of a pattern that says the group."""
_GROUP_STREAM = 3
"""Keeps the draws of groups apart from those of samples."""
SAYS_ITSELF = (
    "the data says itself what is for the test, so nothing is left to draw: leave out --split-by, "
    "or the parts"
)


@dataclass(frozen=True)
class Drawing:
    """How the test part is drawn where the data does not say it.

    share: of the samples of every class. by: a pattern, column or array that says each sample's
    group, of which none is in both parts; empty draws samples. note: hears how many groups there
    are.
    """

    share: float = 0.2
    seed: int = 0
    by: str = ""
    note: Callable[[str], None] = field(default=lambda _: None, compare=False)

    def parts(self, y: Labels, groups: Sequence[str] = ()) -> tuple[Indices, Indices]:
        """Ascending indices (train, test). groups: of each sample, if they are split by. Raises
        DataError."""
        if not self.by:
            return stratified(y, self.share, self.seed)
        train, test = split_groups(y, groups, self.share, self.seed)
        sides = [len({groups[i] for i in part}) for part in (train, test)]
        self.note(
            f"{sum(sides):,} groups by {self.by!r}: {sides[0]:,} for training and {sides[1]:,} for "
            f"the test, {100 * len(test) / len(y):.1f} % of the samples; none is in both"
        )
        return train, test

    def check_none(self) -> None:
        """Raise DataError if groups are asked for, of data that has a test part."""
        if self.by:
            raise DataError(SAYS_ITSELF)

    @property
    def is_pattern(self) -> bool:
        """Whether it is of the names of files where it may be a column in them, too."""
        return "(" in self.by

    def of_files(self, paths: Sequence[Path]) -> list[str]:
        """The group of each file, by its name: the part (?P<group>…) of the pattern.

        Else its first part in parentheses, else all that it matches. Raises DataError for what is
        no pattern, and for a file that it does not match.
        """
        try:
            pattern = re.compile(self.by)
        except re.error as error:
            raise DataError(
                f"--split-by {self.by[:80]!a} is no regular expression ({error}): give one such as "
                "'^(?P<group>[^_]+)_'"
            ) from error
        part: int | str = GROUP if GROUP in pattern.groupindex else min(pattern.groups, 1)
        found = []
        for path in paths:
            match = pattern.search(path.name)
            group = match[part] if match else ""
            if not group:
                raise DataError(
                    f"{path.parent.name}/{path.name!a} does not say its group: --split-by "
                    f"{self.by[:80]!a} matches nothing there"
                )
            found.append(group)
        return found


def split_groups(
    y: Labels, groups: Sequence[str], share: float, seed: int
) -> tuple[Indices, Indices]:
    """Ascending indices (train, test) of samples whose groups are whole in one of them.

    Groups come in an order drawn by `seed`. A group goes to the test part if that brings the
    classes nearer to their shares (least squares over classes). The one that comes nearest goes
    there in any case. No class loses its last training sample. What is drawn depends on the groups
    and classes, not on the order of samples. Raises DataError for a share outside 0..1, for a
    single group, and where no group can go.
    """
    if not 0.0 < share < 1.0:
        raise DataError(f"the test share is {share}: give a share between 0 and 1, as 0.2")
    known, number = np.unique(np.asarray(groups, str), return_inverse=True)
    if len(known) < 2:
        raise DataError(
            f"all samples are of one group, {str(known[0])[:40]!a}: split by something that "
            "differs, or leave out --split-by"
        )
    label = np.unique(y, return_inverse=True)[1] if y.ndim == 1 else np.zeros(len(y), np.int64)
    counts = np.zeros((len(known), label.max() + 1), np.int64)
    np.add.at(counts, (number, label), 1)
    total = counts.sum(axis=0)
    chosen = np.zeros(len(known), np.bool_)
    taken = np.zeros_like(total)
    far = _far(taken, total, share)
    order = np.argsort(raw_draws(len(known), seed, _GROUP_STREAM), kind="stable")
    for group in order:
        after = taken + counts[group]
        if (after < total).all() and _far(after, total, share) < far:
            chosen[group], taken, far = True, after, _far(after, total, share)
    if not chosen.any():
        able = [g for g in order if (counts[g] < total).all()]
        if not able:
            raise DataError(
                "each group has all samples of some class, so none can be kept for the test: add "
                "samples of other groups, or leave out --split-by"
            )
        chosen[min(able, key=lambda g: _far(counts[g], total, share))] = True
    is_test = chosen[number]
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _far(taken: Labels, total: Labels, share: float) -> float:
    """Return how far the classes are from their share, squared."""
    return float(((taken / total - share) ** 2).sum())
