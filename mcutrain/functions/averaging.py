"""What boards of a fleet learnt, as one state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.reading import opened, size_of
from mcutrain_host.saved import HEADER_BYTES, SavedState, with_recipe

from mcutrain.arguments import PathLike, Seed, Within, checked
from mcutrain.errors import ArgumentError, StateError
from mcutrain.fleets import (
    Contribution,
    FleetLayout,
    averaged,
    check_round,
    of_scheme,
    on_time,
    trimmed,
)
from mcutrain.fleets.contribution import MAGIC, MOST_BYTES
from mcutrain.functions.files import replace_file
from mcutrain.pipeline import load
from mcutrain.pipeline.recipe import Recipe
from mcutrain.shown import Record, Shown
from mcutrain.trained import model_of, step_of
from mcutrain.trained.state import SavedRun, read_state

SUFFIX = ".mctd"
FAR = 3.0
"""How many times as far as the median board one has moved that is called far."""
FEWEST_TO_JUDGE = 4


@dataclass(frozen=True)
class BoardShare:
    """What went into an average. moved: root mean square of what its numbers moved by, in units of
    their last bit. is_far: it moved much farther than the others, or much less.
    """

    name: str
    boards: int
    weight: int
    updates: int
    moved: float
    is_far: bool


@dataclass(frozen=True, repr=False)
class FleetAverage(Shown):
    """What `average` wrote.

    path: the file. is_sum: a sum for others to add, not a state. boards: how many are in it.
    sha256: of the trained state, or of the file of a sum, in hex. shares: what went into it.
    """

    path: Path
    is_sum: bool
    boards: int
    weight: int
    size_bytes: int
    sha256: str
    shares: tuple[BoardShare, ...]

    def summary(self) -> str:
        """Return a line that describes it."""
        what = "the sum" if self.is_sum else "the mean"
        boards = "1 board" if self.boards == 1 else f"{self.boards:,} boards"
        return f"{self.path}: {what} of {boards}, {self.size_bytes:,} bytes"

    def records(self) -> list[Record]:
        """A row for each file that went into it."""
        return [vars(share).copy() for share in self.shares]

    def to_dict(self) -> Record:
        """Return it as `mcutrain average --json` prints it."""
        return {**vars(self), "path": str(self.path), "shares": self.records()}


@checked
def average(
    model: PathLike,
    base: PathLike,
    trained: Sequence[PathLike] | Mapping[str, PathLike],
    output: PathLike,
    *,
    weights: Sequence[int] | None = None,
    rounding: Literal["nearest", "stochastic"] = "nearest",
    trim: Annotated[int, Within(0)] = 0,
    former: Sequence[PathLike] = (),
    other: Sequence[PathLike] = (),
    seed: Seed = 0,
) -> FleetAverage:
    """Average what boards learnt since a base: the next base for all of them.

    Trained numbers are integers and are added in int64, so the result is the same bytes in any
    order of boards, and over any tree of sums.

    model: the file that all of them trained. base: the state that the round began with, which says
        how it is trained. trained: states (.mcts), checkpoints, projects of `train`, or sums
        (.mctd), with the boards' names as keys, or named by their files.
    output: a .mcts file gets the new base; a .mctd file the sum, for another `average` to add.
    weights: of each file, in their order; without, the samples that the board learnt since the
        base. Sums have their own.
    rounding: of the mean; stochastic, by seed, keeps means that are less than half of a last bit.
    trim: leave out so many of the smallest and of the largest differences of each number, against
        boards that lie or diverge; weights do not count then.
    former: the bases of the rounds before, newest first: a sum that began with the k-th of them
        counts 1 / 2^k as much. Without, a sum of another round is refused.
    other: bases of this round of other schemes, of boards that train by them: a tensor that both
        train alike is averaged over all of these boards. Rounding is nearest then, so that the
        bases of all schemes keep the same numbers.

    Raises StateError for files of another model, scheme or base, and where a board is there twice;
    ArgumentError, ModelError.

    >>> average("model.tflite", "base.mcts", ["a.mcts", "b.mcts"], "next.mcts")
    """
    target = Path(output)
    if target.suffix not in (".mcts", SUFFIX):
        raise ArgumentError(
            f"{target} must end with .mcts, for a new base, or with {SUFFIX}, for a sum that "
            "another average adds"
        )
    files = _named(trained)
    fleet = Fleet.of(Path(model), Path(base), tuple(map(Path, other)))
    if other and (trim or rounding != "nearest"):
        raise ArgumentError(
            "with boards of other schemes, leave out trim and round to nearest: the bases of "
            "all schemes must keep the same numbers"
        )
    parts = fleet.parts(files, weights, is_alike=trim > 0)
    if former:
        bases = [fleet.base, *(fleet.state(Path(path)) for path in former)]
        parts = on_time(parts, [sha256(base.raw).hexdigest() for base in bases])
    shares = tuple(_shares(files, parts))
    total = parts[0] if trim else total_of(parts)
    if target.suffix == SUFFIX:
        if trim:
            raise ArgumentError(
                f"a sum ({SUFFIX}) adds up all boards, but --trim needs each by itself: trim "
                "where the new base is made"
            )
        made = written = total.to_bytes()
    else:
        if trim:
            made = trimmed(fleet.layout, fleet.base, parts, trim, rounding, seed)
        else:
            made = averaged(fleet.layout, fleet.base, total, rounding, seed)
        written = with_recipe(made, fleet.recipe.to_json())
    replace_file(target, written)
    return FleetAverage(
        path=target,
        is_sum=target.suffix == SUFFIX,
        boards=sum(len(part.boards) for part in parts),
        weight=sum(part.weight for part in parts),
        size_bytes=len(written),
        sha256=sha256(made).hexdigest(),
        shares=shares,
    )


@dataclass(frozen=True)
class Fleet:
    """What all boards of a round have in common: the step that they train, and its base.

    others: boards of other schemes.
    """

    layout: FleetLayout
    base: SavedState
    recipe: Recipe
    others: tuple[Fleet, ...] = ()

    @staticmethod
    def of(model: Path, base: Path, others: tuple[Path, ...] = ()) -> Fleet:
        """Raise StateError where a base does not say how it is trained, or is another model's.

        others: bases of other schemes.
        """
        run = read_state(base)
        if run.recipe is None:
            raise StateError(
                f"{base} does not say how it is trained: take a state that `mcutrain simulate "
                "--save-state` or `mcutrain train` wrote"
            )
        graph = model_of(load(model), run.recipe, str(base))
        layout = FleetLayout(step_of(graph, run.recipe))
        saved = layout.saved(_raw(run, layout), str(base))
        return Fleet(layout, saved, run.recipe, tuple(Fleet.of(model, path) for path in others))

    def parts(
        self, files: Mapping[str, Path], weights: Sequence[int] | None, *, is_alike: bool
    ) -> list[Contribution]:
        """Return what each file adds. is_alike: states have the weight 1, whatever they learnt.

        Raises StateError, ArgumentError.
        """
        if is_alike and weights is not None:
            raise ArgumentError("--trim counts every board alike: leave out --weights")
        if weights is not None and len(weights) != len(files):
            raise ArgumentError(f"{len(weights)} weights for {len(files)} files: give one for each")
        return [
            self._part(name, file, None if weights is None else weights[i], is_alike=is_alike)
            for i, (name, file) in enumerate(files.items())
        ]

    def _part(self, name: str, file: Path, weight: int | None, *, is_alike: bool) -> Contribution:
        if _is_sum(file):
            if weight is not None:
                raise ArgumentError(f"{file} is a sum, which has weights of its own: give none")
            return self._adopted(Contribution.parse(file.read_bytes(), str(file)))
        fleet, state = self._of(file)
        return self._adopted(fleet.contribution(state, name, 1 if is_alike else weight))

    def _of(self, file: Path) -> tuple[Fleet, SavedState]:
        """The fleet whose step a state is of, and the state. Raises StateError."""
        for other in self.others:
            with suppress(StateError):
                return other, other.state(file)
        return self, self.state(file)

    def _adopted(self, one: Contribution) -> Contribution:
        """Return what boards learnt, also by another scheme. Raises StateError as `of_scheme`."""
        for other in self.others:
            if one.model_hash == other.base.model_hash != self.base.model_hash:
                check_round(other.layout, other.base, one)
                return of_scheme(self.layout, self.base, one, other.layout, other.base)
        return one

    def state(self, file: Path) -> SavedState:
        """Return a state of this fleet's step. Raises StateError."""
        return self.layout.saved(_raw(read_state(file), self.layout), str(file))

    def contribution(self, state: SavedState, name: str, weight: int | None = None) -> Contribution:
        """Return what a board learnt. weight: without, the samples since the base.

        Raises StateError where there are none.
        """
        if weight is None:
            accumulate = self.layout.step.plan.training.accumulate
            learnt, before = state.position(accumulate), self.base.position(accumulate)
            weight = (learnt - before) % 2**32
            if not 0 < weight < 2**31:
                raise StateError(
                    f"{name!r} has learnt from {learnt:,} samples, but the base from "
                    f"{before:,}, so its weight is not known: leave it out, or give --weights"
                )
        return Contribution.of(self.layout, self.base, state, name, weight)


def _raw(run: SavedRun, layout: FleetLayout) -> bytes:
    try:
        return run.saved(layout.step.plan.kept_bytes + HEADER_BYTES)
    except HostError as error:
        raise StateError(str(error)) from error


def _is_sum(file: Path) -> bool:
    """Return whether a file is a sum. Raises StateError where it is longer than one can be."""
    if file.is_dir():
        return False
    try:
        with opened(file) as stream:
            if stream.read(4) != MAGIC:
                return False
            size = size_of(stream)
    except (OSError, HostError):
        return False  # whoever reads it as a state says why not
    if size > MOST_BYTES:
        raise StateError(f"{file} has {size:,} bytes, more than a fleet's sum can have")
    return True


def total_of(parts: Sequence[Contribution]) -> Contribution:
    """Return the sum of all. Raises StateError where they cannot be added."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def board_name(file: Path) -> str:
    """Return what a board is called after its file, or after its project's folder."""
    return file.resolve().name if file.is_dir() else file.stem


def _named(trained: Sequence[PathLike] | Mapping[str, PathLike]) -> dict[str, Path]:
    """Files by the boards' names, which are those of files, or of projects' folders."""
    if isinstance(trained, Mapping):
        files = {name: Path(file) for name, file in trained.items()}
    else:
        files = {}
        for file in map(Path, trained):
            name = board_name(file)
            if name in files:
                raise ArgumentError(
                    f"{files[name]} and {file} would both be called {name!r}: name one of "
                    f"them, as NAME={file}"
                )
            files[name] = file
    if not files:
        raise ArgumentError("no board has learnt anything: give their states")
    return files


def _shares(files: Iterable[str], parts: Sequence[Contribution]) -> Iterable[BoardShare]:
    """Say of each what it moved; a board that did not do as others is far."""
    usual = median(part.moved for part in parts)
    for name, part in zip(files, parts, strict=True):
        is_far = len(parts) >= FEWEST_TO_JUDGE and (
            part.moved > FAR * usual or part.moved * FAR < usual
        )
        yield BoardShare(name, len(part.boards), part.weight, part.updates, part.moved, is_far)
