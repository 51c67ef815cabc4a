"""Boards of two schemes: what both train is averaged over all, the rest over its own boards."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcutrain_host.saved import SavedState, with_recipe

from mcutrain import demo
from mcutrain.errors import ArgumentError, StateError
from mcutrain.fleets import Contribution, FleetLayout, averaged, of_scheme, trimmed, with_momentum
from mcutrain.fleets.masks import MaskedSum
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings
from mcutrain.simulation.rates import LearningRate
from mcutrain.trained import trained_graph
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.fleets.test_average import total_of

COMMON = ("head/weight", "head/bias")


@dataclass(frozen=True)
class Boards:
    """Boards of a scheme: a base, and what two of them learnt of it."""

    layout: FleetLayout
    base: SavedState
    states: tuple[SavedState, ...]
    name: str

    @property
    def parts(self) -> list[Contribution]:
        return [
            Contribution.of(self.layout, self.base, state, f"{self.name}{i}", 3 + 4 * i)
            for i, state in enumerate(self.states)
        ]

    def file(self, state: SavedState) -> bytes:
        recipe = self.layout.step.recipe
        assert recipe is not None
        return with_recipe(state.raw, recipe.to_json())

    def later(self, base: bytes, first: int) -> Boards:
        """The next round."""
        return learnt(self.layout, self.layout.saved(base, "a base"), self.name, first)

    def adopted(self, others: Boards) -> list[Contribution]:
        """What others learnt, as of this scheme."""
        own, theirs = (self.layout, self.base), (others.layout, others.base)
        return [of_scheme(*own, part, *theirs) for part in others.parts]

    def mean(self, others: Boards) -> bytes:
        return averaged(self.layout, self.base, total_of([*self.parts, *self.adopted(others)]))


def learnt(layout: FleetLayout, base: SavedState, name: str, first: int) -> Boards:
    split = demo.deployed(demo.upright(demo.Size(train=100, test=10)))
    samples = prepare_samples(split, RunSettings(), model_input(demo.network()))
    simulator, states = layout.step.simulator(7), []
    for i in range(2):
        index = np.arange(first + 20 * i, first + 20 * i + 3 + 4 * i)
        simulator.load(base.raw)
        rates = [LearningRate.of(0.05)] * len(index)
        simulator.train(samples.train(index, 0, 0), split.train.y[index], rates)
        states.append(layout.saved(simulator.save(), "a state"))
    return Boards(layout, base, tuple(states), name)


def begun(scheme: str, name: str, first: int, options: StepOptions | None = None) -> Boards:
    layout = FleetLayout(prepare(demo.network(), scheme, options or StepOptions()))
    return learnt(layout, layout.saved(layout.step.reference(7).save(), "base"), name, first)


@cache
def large() -> Boards:
    """Trains columns of some layers, so that channels lie in another order than the model's."""
    return begun("bias:2,22:0.5", "large", 0)


@cache
def small() -> Boards:
    return begun("head", "small", 50)


@pytest.mark.slow
def test_what_both_train_is_the_mean_of_all_boards_in_the_models_order() -> None:
    ours = total_of([*large().parts, *large().adopted(small())])
    weight, order = large().layout.step.order, {}
    index = np.arange(large().layout.sizes["head/weight"])
    shape = weight.graph.tensors["head/weight"].type.shape
    order["head/weight"] = weight.restored("head/weight", index.reshape(shape)).ravel()
    order["head/bias"] = np.arange(large().layout.sizes["head/bias"])
    assert np.any(order["head/weight"] != index)  # or the test would see no wrong order
    new = large().layout.read(large().layout.saved(large().mean(small()), "the mean"))
    for name in COMMON:
        before = large().layout.read(large().base)[name]
        for place in range(len(before)):
            there = order[name][place]
            apart = [int(p.differences[name][there]) * p.weight for p in large().parts]
            apart += [int(p.differences[name][place]) * p.weight for p in small().parts]
            mean = floor(Fraction(sum(apart), 20) + Fraction(1, 2))
            assert new[name][there] == before[there] + mean, (name, place)
    assert ours.weight == 20
    assert set(ours.without) == set(ours.sums) - set(COMMON)
    assert set(ours.without.values()) == {10}


def test_what_one_scheme_trains_is_the_mean_of_its_boards() -> None:
    both = large().layout.read(large().layout.saved(large().mean(small()), "both"))
    alone = averaged(large().layout, large().base, total_of(large().parts))
    own = large().layout.read(large().layout.saved(alone, "alone"))
    apart = {name for name in both if not np.array_equal(both[name], own[name])}
    assert apart == set(COMMON)
    assert len(both) > len(COMMON)


def test_both_schemes_go_on_with_the_same_model() -> None:
    """Whatever the order of channels; and a second round finds the same numbers in both bases."""
    first, second = large().mean(small()), small().mean(large())
    graphs = [
        trained_graph(one.layout.step, mean, demo.network())
        for one, mean in ((large(), first), (small(), second))
    ]
    for name in COMMON:
        a, b = (graph.tensors[name].data for graph in graphs)
        assert np.array_equal(a, b)  # type: ignore[arg-type]
        assert not np.array_equal(a, demo.network().tensors[name].data)  # type: ignore[arg-type]
    later, theirs = large().later(first, 10), small().later(second, 60)
    assert later.adopted(theirs)
    with pytest.raises(StateError, match="'head/weight' began with other numbers in the base of"):
        replace(theirs, base=small().base).adopted(later)
    with pytest.raises(StateError, match="bases of the same round and model"):
        later.adopted(small())


def test_schemes_with_nothing_in_common_get_a_sentence() -> None:
    other = StepOptions(classes=12)
    with pytest.raises(StateError, match="'other0' trains nothing"):
        large().adopted(begun("head", "other", 50, other))


@pytest.mark.parametrize(
    ("theirs", "lacking"),
    [
        ("bias:2,22:0.5", False),
        ("22:0.25", True),  # fewer columns
        ("fashion-sparse", True),  # as many, of other channels
    ],
)
def test_columns_are_shared_where_they_are_the_same(theirs: str, lacking: bool) -> None:
    sides = []
    for scheme in ("22:0.5", theirs):
        step = (
            demo.training_step(demo.network(), scheme)
            if scheme.startswith("fashion")
            else prepare(demo.network(), scheme)
        )
        layout = FleetLayout(step)
        sides.append((layout, layout.saved(step.reference(1).save(), "a base")))
    one = Contribution.of(sides[1][0], sides[1][1], sides[1][1], "a", 1)
    found = of_scheme(*sides[0], one, *sides[1])
    assert ("block8/expand/weight.trained" in found.without) == lacking
    assert not set(COMMON) & set(found.without)


def test_numbers_with_other_bits_are_not_shared() -> None:
    head = prepare(demo.network(), "head").scheme
    finer = replace(head, head_residual_bits=2 * head.head_residual_bits)
    layout = FleetLayout(prepare(demo.network(), finer))
    start = layout.saved(layout.step.reference(7).save(), "a base")
    one = Contribution.of(layout, start, start, "a", 1)
    found = of_scheme(small().layout, small().base, one, layout, start)
    assert found.without == {"head/weight": 1}


@pytest.mark.slow
@given(st.permutations(range(4)), st.integers(1, 3))
def test_any_order_and_any_tree_gives_the_same_sum(order: list[int], cut: int) -> None:
    parts = [*large().parts, *large().adopted(small())]
    straight = total_of(parts)
    groups = [[parts[i] for i in order[:cut]], [parts[i] for i in order[cut:]]]
    sums = [Contribution.parse(total_of(some).to_bytes(), "a sum") for some in groups]
    assert total_of(sums).to_bytes() == straight.to_bytes()
    assert total_of(sums).without == straight.without


def test_a_sum_of_two_schemes_is_taken_by_a_third_as_its_boards_are() -> None:
    """Boards that do not train what a sum has besides count there neither."""
    third = begun("last:1", "third", 20)
    assert set(third.layout.sizes) >= set(COMMON)
    gathered = total_of([*large().parts, *large().adopted(small())])
    bases = (third.layout, third.base), (large().layout, large().base)
    found = of_scheme(*bases[0], gathered, *bases[1])
    apart = [of_scheme(*bases[0], part, *bases[1]) for part in large().parts]
    apart += third.adopted(small())
    assert found.to_bytes() == total_of(apart).to_bytes()


def test_late_boards_of_another_scheme_count_half() -> None:
    one = large().adopted(small())[1]
    late = one.late(1, "ab" * 32, 2)
    assert (late.weight, late.without) == (7, one.without)
    assert one.late(0, "ab" * 32, 4).without == dict.fromkeys(one.without, 28)


def test_tensors_that_no_board_trained_stay_and_move_nobody() -> None:
    parts = large().adopted(small())
    alone = large().layout.saved(averaged(large().layout, large().base, total_of(parts)), "mean")
    before, after = large().layout.read(large().base), large().layout.read(alone)
    assert {n for n in before if not np.array_equal(before[n], after[n])} == set(COMMON)
    moved, velocity = with_momentum(total_of(parts), {}, 0.5)
    assert moved.without == {}
    assert {name for name, value in velocity.items() if np.any(value)} == set(COMMON)
    own = total_of(small().parts)
    assert total_of(parts).moved == pytest.approx(own.moved)  # of what they train


def test_robust_means_and_masks_take_one_scheme() -> None:
    parts = [*large().parts, *large().adopted(small())]
    with pytest.raises(ArgumentError, match="have one scheme"):
        trimmed(large().layout, large().base, parts, 1)
    with pytest.raises(StateError, match="masked boards have one scheme"):
        MaskedSum.of(large().layout, parts[-1], bytes(32), [])


def test_a_file_lacks_no_more_weight_than_there_is() -> None:
    raw = large().adopted(small())[1].to_bytes()
    assert Contribution.parse(raw, "a sum").without["block8/expand/weight.trained"] == 7
    forged = raw[:-4].replace(b'"without": 7', b'"without": 8', 1)
    assert forged != raw[:-4]
    with pytest.raises(StateError, match="forged is no contribution"):
        Contribution.parse(forged + zlib.crc32(forged).to_bytes(4, "little"), "forged")


@pytest.fixture
def files(run: Run, tmp_path: Path) -> None:
    """Bases and states of both schemes in an empty folder."""
    for boards in (large(), small()):
        (tmp_path / f"{boards.name}-base.mcts").write_bytes(boards.file(boards.base))
        for i, state in enumerate(boards.states):
            (tmp_path / f"{boards.name}{i}.mcts").write_bytes(boards.file(state))


STATES = ("large0.mcts", "large1.mcts", "small0.mcts", "small1.mcts")


@pytest.mark.usefixtures("files")
def test_average_takes_boards_of_another_scheme(run: Run, tmp_path: Path) -> None:
    flags = ("--other", "small-base.mcts", "-o", "large-next.mcts", "--json")
    found = run("average", demo.MODEL, "large-base.mcts", *STATES, *flags)
    assert found.code == 0, found.err
    assert (tmp_path / "large-next.mcts").read_bytes().startswith(large().mean(small()))
    assert [share["weight"] for share in found.json["shares"]] == [3, 7, 3, 7]
    sums = ("average", demo.MODEL, "small-base.mcts", "small0.mcts", "small1.mcts")
    assert run(*sums, "-o", "small.mctd").code == 0
    flags = ("small.mctd", "--other", "small-base.mcts", "-o", "again.mcts")
    assert run("average", demo.MODEL, "large-base.mcts", *STATES[:2], *flags).code == 0
    again = (tmp_path / "again.mcts").read_bytes()
    assert again == (tmp_path / "large-next.mcts").read_bytes()
    flags = ("--other", "large-base.mcts", "-o", "small-next.mcts")
    assert run("average", demo.MODEL, "small-base.mcts", *STATES, *flags).code == 0
    assert (tmp_path / "small-next.mcts").read_bytes().startswith(small().mean(large()))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "small0.mcts was trained with another model"),
        (("--other", "small-base.mcts", "--trim", "1"), "leave out trim"),
        (("--other", "small-base.mcts", "--rounding", "stochastic"), "round to nearest"),
        (("--other", "small0.mcts"), "began with other numbers"),
    ],
)
def test_wrong_bases_of_schemes_get_a_sentence(
    run: Run, tmp_path: Path, flags: tuple[str, ...], sentence: str
) -> None:
    states = STATES[:3] if "small0.mcts" not in flags else (*STATES[:2], "small1.mcts")
    found = run("average", demo.MODEL, "large-base.mcts", *states, *flags, "-o", "n.mcts")
    assert sentence in found.sentence
    assert not (tmp_path / "n.mcts").exists()
