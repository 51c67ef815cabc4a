"""The scheme that a memory asks for: what is chosen, from what, and what is kept of it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain.analysis.gradient import GradientSettings, by_gradient
from mcutrain.analysis.problem import Problem, held_out
from mcutrain.data import Split, of_arrays
from mcutrain.demo import MODEL
from mcutrain.errors import ArgumentError, DataError, PlanError, UnsupportedError
from mcutrain.experiments.contest import Contest
from mcutrain.functions import chooser as choosers
from mcutrain.functions import memory_limit
from mcutrain.functions.alternatives import Alternative, AutoScheme
from mcutrain.functions.automatic import wanted_scheme
from mcutrain.functions.chooser import Chooser, text_of
from mcutrain.functions.memory_limit import USUAL_SRAM, MemoryLimit
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep
from mcutrain.selection.contribution import Contributions
from mcutrain.selection.joint import TOLERANCE
from mcutrain.sparse import UpdateScheme, parse_scheme
from mcutrain.target import target_of
from tests.analysis.conftest import two_layers
from tests.cli.small import write_small
from tests.simulation.networks import Network, residual_network, samples

CLASSES = 4
Parts = tuple[tuple[Any, Any], tuple[Any, Any]]


def learnable(graph: Graph, count: int = 60) -> Split:
    x, y = samples(graph, count, CLASSES, seed=5)
    return of_arrays(((x[:40], y[:40]), (x[40:], y[40:])))


def chooser(graph: Graph, sram: int | None) -> Chooser:
    memory = MemoryLimit.of(None, sram)
    return Chooser(graph, None, memory, lambda scheme: mcutrain.prepare(graph, scheme))


def needs(graph: Graph, scheme: str) -> int:
    return mcutrain.prepare(graph, scheme).plan.sram_bytes


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many analyses are made."""
    made: list[int] = []
    real = choosers.by_gradient

    def counting(*arguments: object) -> object:
        made.append(1)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(choosers, "by_gradient", counting)
    return made


asked_epochs: list[int] = []
"""Of the runs that contests were asked for."""


def ends(monkeypatch: pytest.MonkeyPatch, best: str | None) -> list[list[str]]:
    """Contests that end so, or say nothing; returns the names of those that entered."""
    entered: list[list[str]] = []

    def contest(
        steps: Mapping[str, TrainingStep], *_: object, epochs: int, **__: object
    ) -> Contest | None:
        entered.append(list(steps))
        asked_epochs.append(epochs)
        return None if best is None else Contest(best, 77)

    monkeypatch.setattr(choosers, "run_contest", contest)
    return entered


@pytest.mark.slow
def test_all_is_trained_where_all_fits_and_nothing_is_analysed(
    analyses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = ends(monkeypatch, None)
    graph = two_layers()
    size = needs(graph, "full")
    found = chooser(graph, size).choose(learnable(graph))
    assert (found.scheme, found.sram_bytes, found.limit_bytes) == ("full", size, size)
    assert found.reason == f"all of it fits in {size:,} bytes"
    assert entered == [["head", "last:1", "full"]]
    assert not analyses
    assert chooser(graph, size - 1).choose(learnable(graph)).scheme != "full"


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("best", ["head", "last:2", "full"])
def test_where_all_fits_short_runs_say_what_is_trained(
    best: str, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path
) -> None:
    entered = ends(monkeypatch, best)
    asked_epochs.clear()
    graph = residual_network(classes=CLASSES)
    split, asked = learnable(graph), chooser(graph, needs(graph, "full"))
    found = asked.choose(split)
    quarter, half = -(-asked.layers // 4), -(-asked.layers // 2)
    assert entered == [["head", f"last:{quarter}", f"last:{half}", "full"]]
    assert (found.scheme, found.sram_bytes) == (best, needs(graph, best))
    assert " and full it ends runs of 77 steps with the least loss" in found.reason
    assert asked.choose(split) == found
    assert len(entered) == 1  # it is kept
    asked.choose(replace(split, train=split.train.subset(30)))
    assert len(entered) == 2
    roomy = replace(asked, memory=MemoryLimit.of(None, 1 << 20))
    roomy.choose(split)
    assert len(entered) == 2  # the memory is no matter
    for made, count in enumerate((4, 8), 3):
        plan = partial(mcutrain.prepare, graph, accumulate=count)
        replace(roomy, plan=plan).choose(split)
        assert len(entered) == made
    for file in (fresh_cache / "automatic").iterdir():
        file.write_bytes(b"{}")
    assert asked.choose(split) == found
    assert len(entered) == 5
    replace(asked, epochs=9).choose(split)
    assert asked_epochs == [4, 4, 4, 4, 4, 9]


def test_what_time_has_cut_is_said_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, fresh_cache: Path
) -> None:
    graph = two_layers()
    split, asked = learnable(graph), chooser(graph, needs(graph, "full"))
    for steps, said in ((0, "there is no time to compare"), (77, "no time for longer ones")):
        cut = Contest("head", steps, is_cut=True)
        monkeypatch.setattr(choosers, "run_contest", lambda *_, cut=cut, **__: cut)
        found = asked.choose(split)
        assert found.scheme == "head"
        assert said in found.reason
    ends(monkeypatch, "full")
    assert asked.choose(split).scheme == "full"
    assert "no time" not in asked.choose(split).reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda part: replace(part, x=part.x[:, :3]), "have the shape"),
        (lambda part: replace(part, y=np.zeros((len(part), 4), np.int64)), "4 labels each"),
        (lambda part: replace(part, y=part.y + 4, names=tuple("abcdefgh")), "labels go up to"),
    ],
)
def test_samples_that_do_not_fit_the_model_are_refused_before_anything_is_compared(
    change: Any, said: str, analyses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = ends(monkeypatch, "full")
    graph = two_layers()
    split = learnable(graph).each(change)
    for spare in (0, 1):
        asked = chooser(graph, needs(graph, "full") - spare)
        for choose in (asked.choose, asked.compared):
            with pytest.raises(DataError, match=said):
                choose(split)
    assert (entered, analyses) == ([], [])


def test_a_step_that_chooses_while_it_runs_has_all_to_choose_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered = ends(monkeypatch, "head")
    graph = residual_network(classes=CLASSES)
    asked = chooser(graph, 1 << 20)
    elastic = replace(asked, plan=lambda scheme: mcutrain.prepare(graph, scheme, elastic=True))
    assert elastic.choose(learnable(graph)).scheme == "full"
    assert not entered


@pytest.mark.slow
def test_what_does_not_fit_whole_is_selected_within_the_limit() -> None:
    graph = residual_network(classes=CLASSES)
    split = learnable(graph)
    smallest, whole = needs(graph, "head"), needs(graph, "full")
    for sram in range(smallest, whole, max((whole - smallest) // 5, 1)):
        found = chooser(graph, sram).choose(split)
        assert found.sram_bytes == needs(graph, found.scheme) <= sram
        assert "by gradients" in found.reason
        if found.larger is not None:
            assert needs(graph, found.larger.scheme) == found.larger.sram_bytes > sram
            assert not found.larger.fits


def drawn_analysis(asked: Chooser, split: Split) -> Contributions:
    """An analysis of parts that learn much, and largely the same: drawn gradients in few
    directions."""
    made, rng = asked._analysis(split, None), np.random.default_rng(3)
    assert made.kernels is not None
    common, samples = rng.normal(size=(made.kernels.samples, 3)), made.kernels.samples

    def products(size: float) -> np.ndarray:
        g = common @ rng.normal(size=(3, 2)) + rng.normal(size=(samples, 2)) / 2
        return (size * g @ g.T).astype(np.float32)

    weights: dict[int, dict[float, np.ndarray]] = {}
    for i, by in made.kernels.weights.items():
        sizes = rng.exponential(size=len(by))
        drawn = np.cumsum([products(size) for size in sizes], axis=0)
        weights[i] = dict(zip(sorted(by), drawn, strict=True))
    biases = tuple(products(rng.exponential() / 4) for _ in made.layers)
    kernels = replace(made.kernels, biases=biases, weights=weights)
    return choosers._at_usual_rate(replace(made, kernels=kernels))


def budgets(graph: Graph) -> range:
    """From what the head takes to almost all."""
    smallest, whole = needs(graph, "head"), needs(graph, "full")
    return range(smallest, whole, (whole - smallest) // 4)


@pytest.mark.slow
def test_a_scheme_is_chosen_by_what_it_learns_as_a_whole_at_half_of_the_rate() -> None:
    graph = residual_network(classes=CLASSES)
    analysis = drawn_analysis(chooser(graph, None), learnable(graph))
    assert analysis.kernels is not None
    kernels = analysis.kernels.at(0.5)
    gained = []
    for sram in budgets(graph):
        asked = chooser(graph, sram)
        sums = asked._selector(analysis, "learnable").select(asked.memory.limits, with_next=False)
        by_sum = text_of(sums.scheme, asked.layers)
        chosen, other = (
            kernels.learnable(kernels.of(*parts_of(text, asked.layers)))
            for text in (asked._select(analysis).scheme, by_sum)
        )
        gained.append(chosen - other)
    tolerance = TOLERANCE * kernels.samples
    assert min(gained) >= -tolerance
    assert max(gained) > tolerance  # the sum chooses another somewhere


@pytest.mark.slow
def test_the_next_scheme_is_what_an_eighth_more_memory_would_buy() -> None:
    graph = residual_network(classes=CLASSES)
    analysis = drawn_analysis(chooser(graph, None), learnable(graph))
    named = 0
    for sram in budgets(graph):
        found = chooser(graph, sram)._select(analysis)
        if found.larger is not None:
            named += 1
            most = sram + sram // 8
            assert sram < found.larger.sram_bytes <= most
            assert found.larger.sram_bytes == needs(graph, found.larger.scheme)
            assert found.larger.scheme == chooser(graph, most)._select(analysis).scheme
    assert named


@pytest.mark.slow
def test_the_answer_is_kept_and_another_budget_asks_for_no_other_analysis(
    analyses: list[int], monkeypatch: pytest.MonkeyPatch, fresh_cache: Path
) -> None:
    graph = residual_network(classes=CLASSES)
    split, sram = learnable(graph), needs(graph, "full") - 1
    first = chooser(graph, sram).choose(split)
    assert len(analyses) == 1
    with monkeypatch.context() as patch:
        patch.setattr(choosers, "Selector", None)  # it is not asked again
        assert chooser(graph, sram).choose(split) == first
    chooser(graph, sram - 100).choose(split)
    assert len(analyses) == 1
    fewer = replace(split, train=split.train.subset(30))
    chooser(graph, sram).choose(fewer)
    assert len(analyses) == 2


@pytest.mark.slow
def test_what_is_kept_and_damaged_is_made_again(
    analyses: list[int], monkeypatch: pytest.MonkeyPatch, fresh_cache: Path
) -> None:
    graph = residual_network(classes=CLASSES)
    split, sram = learnable(graph), needs(graph, "full") - 1
    first = chooser(graph, sram).choose(split)
    for file in (fresh_cache / "automatic").iterdir():
        file.write_bytes(b"{}")
    assert chooser(graph, sram).choose(split) == first
    assert len(analyses) == 2


@pytest.mark.slow
def test_test_samples_are_not_looked_at() -> None:
    graph = residual_network(classes=CLASSES)
    split, sram = learnable(graph), needs(graph, "full") - 1
    other = replace(split, test=replace(split.test, y=np.roll(split.test.y, 1)))
    assert chooser(graph, sram).choose(split) == chooser(graph, sram).choose(other)


def test_without_gradients_the_last_layers_that_fit_are_trained() -> None:
    graph = residual_network(classes=CLASSES)
    split = learnable(graph)
    one = replace(split, train=replace(split.train, y=np.zeros_like(split.train.y)))
    layers = chooser(graph, None).layers
    for k in range(1, layers):
        size = needs(graph, f"last:{k}")
        found = chooser(graph, size).choose(one)
        assert found.sram_bytes == needs(graph, found.scheme) <= size
        assert found.scheme == f"last:{k}" or needs(graph, found.scheme) >= size
        assert "all 30 training samples are of the class" in found.reason or "class" in found.reason


def test_a_model_that_cannot_be_costed_trains_the_last_layers_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise UnsupportedError("a layer has no cost")

    monkeypatch.setattr(choosers, "Selector", refused)
    graph = residual_network(classes=CLASSES)
    split, size = learnable(graph), needs(graph, "last:2")
    asked = without_a_board(graph, size)
    found = asked.compared(split)
    assert (found.scheme, found.sram_bytes) == ("last:2", size)
    assert found.reason.endswith(
        f"fit in {size:,} bytes; none can be selected: a layer has no cost"
    )
    assert found.smaller is not None
    assert (found.smaller.scheme, found.smaller.share) == ("head", None)


def test_a_memory_without_room_for_the_head_is_refused(analyses: list[int]) -> None:
    graph = two_layers()
    split = learnable(graph)
    size = needs(graph, "head")
    with pytest.raises(PlanError) as refused:
        chooser(graph, size - 1).choose(split)
    assert str(refused.value).startswith(
        f"nothing can be trained in {size - 1:,} bytes: the head alone takes {size:,} bytes of "
        "SRAM, 1 more than there are; "
    )
    assert str(refused.value).endswith("or simulate without --sram (--scheme head)")
    assert not analyses
    memory = MemoryLimit.of(target_of("nucleo-f446re"))
    limits = replace(memory.limits, flash_bytes=1000)
    small = replace(chooser(graph, None), memory=replace(memory, limits=limits))
    with pytest.raises(PlanError, match=r"flash, .* more than there are; .* without --board \("):
        small.choose(split)


def test_a_board_counts_its_firmware_and_its_flash() -> None:
    graph = mcutrain.load(MODEL)
    board = target_of("nucleo-f446re")
    assert board is not None
    assert board.ram is not None
    memory = MemoryLimit.of(board)
    step = mcutrain.prepare(graph, "last:3")
    assert memory.sram_bytes == board.ram.size_bytes
    assert memory.needs(step) == mcutrain.plan(step, board=board).sram_bytes
    assert memory.fits(step)
    limits = replace(memory.limits, flash_bytes=1000)
    assert not replace(memory, limits=limits).fits(step)
    assert not MemoryLimit.of(board, memory.needs(step) - 1).fits(step)
    assert MemoryLimit.of().sram_bytes == USUAL_SRAM == 262_144
    hosted = MemoryLimit.of(target_of("native"))
    assert hosted.sram_bytes is None
    assert hosted.fits(mcutrain.prepare(graph, "full"))


def test_the_next_scheme_is_the_largest_that_fits_or_the_least_that_does_not() -> None:
    graph = residual_network(classes=CLASSES)
    head, whole = needs(graph, "head"), needs(graph, "full")
    larger = chooser(graph, whole).larger(head)
    assert larger is not None
    assert (larger.scheme, larger.sram_bytes, larger.fits) == ("full", whole, True)
    assert chooser(graph, whole).larger(whole) is None
    beyond = chooser(graph, head).larger(head)
    assert beyond is not None
    assert not beyond.fits
    assert beyond.sram_bytes == needs(graph, beyond.scheme) > head


def test_the_next_scheme_is_planned_once() -> None:
    """Every simulation asks for it at its end."""
    graph = residual_network(classes=CLASSES)
    planned: list[UpdateScheme] = []

    def plan(scheme: UpdateScheme) -> TrainingStep:
        planned.append(scheme)
        return mcutrain.prepare(graph, scheme)

    asked = replace(chooser(graph, needs(graph, "full")), plan=plan)
    larger = asked.larger(needs(graph, "head"))
    assert larger is not None
    assert [scheme.name for scheme in planned] == [larger.scheme] == ["full"]


def test_the_next_scheme_is_kept_for_all_that_it_depends_on(
    monkeypatch: pytest.MonkeyPatch, fresh_cache: Path
) -> None:
    graph = residual_network(classes=CLASSES)
    head, whole = needs(graph, "head"), needs(graph, "full")
    asked = chooser(graph, whole)
    found = asked.kept_larger(head, "auto")
    assert found == asked.larger(head) is not None
    assert asked.kept_larger(whole, "auto") is None
    with monkeypatch.context() as patch:
        patch.setattr(Chooser, "larger", None)  # it is not looked for again
        assert asked.kept_larger(head, "auto") == found
        assert asked.kept_larger(whole, "auto") is None
    told = Alternative("other", 1, True)
    monkeypatch.setattr(Chooser, "larger", lambda *_: told)
    others = (
        (chooser(graph, whole - 1), head, "auto"),
        (chooser(residual_network(classes=CLASSES + 1), whole), head, "auto"),
        (replace(asked, options=StepOptions(accumulate=2)), head, "auto"),
        (replace(asked, bits=UpdateScheme(residual_bits=4)), head, "auto"),
        (asked, head + 1, "auto"),
        (asked, head, "off"),
    )
    for other, used_bytes, stream in others:
        assert other.kept_larger(used_bytes, stream) == told
    for file in (fresh_cache / "automatic").iterdir():
        file.write_bytes(b"{}")
    assert asked.kept_larger(head, "auto") == told


def without_a_board(graph: Graph, usual: int = USUAL_SRAM) -> Chooser:
    """As chooser, where nobody says how much memory there is."""
    asked = chooser(graph, usual)
    return replace(asked, memory=replace(asked.memory, is_usual=True))


def test_without_a_board_the_head_is_trained_where_it_does_not_fit() -> None:
    graph = residual_network(classes=CLASSES)
    size = needs(graph, "head")
    asked = without_a_board(graph, size - 1)
    found = asked.choose(learnable(graph))
    assert (found.scheme, found.sram_bytes) == ("head", size)
    assert found.reason == f"even the head takes more than {size - 1:,} bytes"
    compared = asked.compared(learnable(graph))
    assert compared.smaller is None
    assert compared.larger is not None
    assert not compared.larger.fits


def test_a_model_that_is_a_classifier_alone_trains_it(analyses: list[int]) -> None:
    net = Network((4, 4, 3), seed=1)
    y = net.conv(net.mean(net.x), CLASSES, rounds_once=True)
    graph = net.graph(net.reshape(y, (1, CLASSES)))
    split, asked = learnable(graph), without_a_board(graph)
    found = asked.compared(split)
    assert (found.scheme, found.larger, found.smaller) == ("head", None, None)
    assert found.reason == "the model has no layer before its classifier"
    assert not analyses


@pytest.mark.slow
@pytest.mark.parametrize("spare", [0, 1, 400])
def test_a_smaller_scheme_that_learns_as_much_is_named(
    spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosers, "AS_MUCH", 0.9)  # the network is small
    graph = residual_network(classes=CLASSES)
    split, asked = learnable(graph), chooser(graph, needs(graph, "full") - spare)
    found = asked.compared(split)
    smaller = found.smaller
    assert smaller is not None
    assert smaller.sram_bytes == needs(graph, smaller.scheme) <= found.sram_bytes // 2
    assert smaller.share is not None
    assert smaller.share >= 0.9
    assert smaller.fits
    one, whole = (reached(asked, split, text) for text in (smaller.scheme, found.scheme))
    assert smaller.share == one / whole
    others = list(asked._smaller(asked._analysis(split, None), found))
    assert len({other.sram_bytes for other in others}) == len(others) > 2
    as_good = [o for o in others if reached(asked, split, o.scheme) / whole >= 0.9]
    assert smaller.sram_bytes == min(other.sram_bytes for other in as_good)
    if spare:
        assert found.larger is not None
        assert found.larger.share == reached(asked, split, found.larger.scheme) / whole
    else:
        assert (found.scheme, found.larger) == ("full", None)


def test_samples_are_prepared_once_for_the_choice_and_what_it_is_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[Graph] = []
    real = Problem.of

    def counting(model: Graph, *arguments: Any, **more: Any) -> Problem:
        prepared.append(model)
        return real(model, *arguments, **more)

    monkeypatch.setattr(choosers.Problem, "of", counting)
    graph = residual_network(classes=CLASSES)
    found = chooser(graph, needs(graph, "full") - 1).compared(learnable(graph))
    assert found.larger is not None
    assert found.larger.share is not None
    assert prepared == [graph]


def reached(asked: Chooser, split: Split, text: str) -> float:
    """By gradients, from all that the scheme's text stands for."""
    kernels = asked._analysis(split, None).kernels
    assert kernels is not None
    return kernels.reachable(kernels.of(*parts_of(text, asked.layers)))


def parts_of(text: str, layers: int) -> tuple[int, dict[int, float]]:
    """How many biases a scheme's text trains, and the shares of layers."""
    scheme = parse_scheme(text)
    depth = layers if scheme.bias_depth is None else scheme.bias_depth
    whole = layers if scheme.depth_weights is None else scheme.depth_weights
    shares = dict.fromkeys(range(layers - whole, layers), 1.0)
    return depth, shares | {int(i): s for i, s in scheme.weights.items()}


def test_what_learns_less_is_only_named_without_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosers, "AS_MUCH", 1.5)
    graph = residual_network(classes=CLASSES)
    split, sram = learnable(graph), needs(graph, "full") - 1
    known, unknown = chooser(graph, sram), without_a_board(graph, sram)
    found = known.choose(split)
    assert known.compared(split).smaller is None
    smaller = unknown.compared(split).smaller
    assert smaller is not None
    assert smaller.sram_bytes == needs(graph, smaller.scheme) <= found.sram_bytes // 2
    assert smaller.share is not None
    assert 0 < smaller.share < 1.5


def test_without_gradients_the_head_is_the_smaller_one() -> None:
    graph = residual_network(classes=CLASSES)
    split = learnable(graph)
    one = replace(split, train=replace(split.train, y=np.zeros_like(split.train.y)))
    asked = without_a_board(graph, needs(graph, "full"))
    smaller = asked.compared(one).smaller
    assert smaller is not None
    assert (smaller.scheme, smaller.sram_bytes) == ("head", needs(graph, "head"))
    assert smaller.share is None
    board = chooser(graph, needs(graph, "full"))
    assert board.compared(one).smaller is None


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (UpdateScheme("x"), "head"),
        (UpdateScheme("x", None, depth_weights=0), "bias:4"),
        (UpdateScheme("x", 2, {"2": 1.0, "3": 1.0}), "last:2"),
        (UpdateScheme("x", 4, {str(i): 1.0 for i in range(4)}), "full"),
        (UpdateScheme("x", 3, {"1": 0.125, "3": 1.0, "2": 0.0}), "1:0.125,3:1,bias:3"),
    ],
)
def test_a_selected_scheme_reads_back_from_its_text(scheme: UpdateScheme, text: str) -> None:
    assert text_of(scheme, 4) == text
    again = parse_scheme(text)
    assert text_of(again, 4) == text if again.depth_weights == 0 else text in ("last:2", "full")


@pytest.mark.parametrize(
    ("given", "fixed", "expected"),
    [
        (None, {}, "auto"),
        ("auto", {}, "auto"),
        ("head", {}, "head"),
        ("last:2", {}, "last:2"),
        (None, {"--pet": "gain"}, "head"),
        (None, {"--pet": None}, "auto"),
    ],
)
def test_what_is_wanted_follows_from_what_is_given(
    given: str | None, fixed: Mapping[str, object], expected: str
) -> None:
    assert wanted_scheme(given, (), MappingProxyType(fixed)) == expected


def test_auto_is_refused_where_no_scheme_can_be_chosen() -> None:
    with pytest.raises(ArgumentError, match="the scheme auto does not go with --pet: say what to"):
        wanted_scheme("auto", (), {"--pet": "gain"})


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Instead of the demo's 26 layers: their schemes take ten times as long to choose from."""
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.fixture
def images() -> Parts:
    """Of the demo, 100 to train on and 20 to test on."""
    with np.load(MODEL.parent / "fashion.npz") as file:
        x, y = file["x_train"][:120], file["y_train"][:120]
    return (x[:100], y[:100]), (x[100:], y[100:])


@pytest.mark.slow
def test_simulate_trains_what_auto_scheme_says(small: Path, images: Parts, tmp_path: Path) -> None:
    chosen = mcutrain.auto_scheme(small, images, board="nucleo-f446re")
    assert isinstance(chosen, AutoScheme)
    assert chosen.limit_bytes == 131_072 >= chosen.sram_bytes
    checkpoint = tmp_path / "run.npz"
    few = {"epochs": 1, "learning_rate": 0.03}
    found = mcutrain.simulate(small, images, board="nucleo-f446re", checkpoint=checkpoint, **few)
    same = mcutrain.simulate(small, images, chosen.scheme, **few)
    assert found.saved == same.saved
    assert found.scheme == same.scheme == chosen.scheme
    again = mcutrain.simulate(small, images, checkpoint=checkpoint, **few)  # it knows its scheme
    assert again.saved == same.saved


@pytest.mark.slow
def test_without_a_board_simulate_trains_what_fits_256_kb(
    small: Path, images: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of this network fits, so less is assumed here."""
    assert memory_limit.USUAL_SRAM == 262_144
    monkeypatch.setattr(memory_limit, "USUAL_SRAM", 160 * 1024)
    chosen = mcutrain.auto_scheme(small, images)
    assert chosen.scheme not in ("head", "full")
    assert chosen.sram_bytes <= 163_840 == chosen.limit_bytes
    assert chosen.scheme == mcutrain.auto_scheme(small, images, sram=163_840).scheme
    few = {"epochs": 1, "learning_rate": 0.03}
    found = mcutrain.simulate(small, images, **few)
    assert (found.scheme, found.sram_bytes) == (chosen.scheme, chosen.sram_bytes)
    assert found.saved == mcutrain.simulate(small, images, chosen.scheme, **few).saved
    fixed = mcutrain.simulate(small, images, pet="gain", **few)
    assert fixed.saved == mcutrain.simulate(small, images, "head", pet="gain", **few).saved


@pytest.mark.slow
def test_without_alternatives_what_fits_whole_asks_for_no_analysis(
    small: Path, images: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def analysis(*_: object) -> Contributions:
        raise AssertionError("an analysis that nobody asked for")

    monkeypatch.setattr(choosers.Chooser, "_analysis", analysis)
    chosen = mcutrain.auto_scheme(small, images, alternatives=False)
    assert chosen.smaller is None
    assert chosen.reason.startswith("all of it fits")
    with pytest.raises(AssertionError, match="nobody"):
        mcutrain.auto_scheme(small, images)


def test_the_rate_of_an_analysis_follows_from_its_gradients() -> None:
    graph = residual_network(classes=CLASSES)
    split = learnable(graph)
    problem = Problem.of(graph, held_out(split.train, 20, 10, 0))
    made = by_gradient(problem, GradientSettings(samples=8, head_epochs=1))
    assert made.kernels is not None

    def times(factor: float) -> Contributions:
        kernels = made.kernels
        assert kernels is not None
        weights = {i: {s: factor * k for s, k in by.items()} for i, by in kernels.weights.items()}
        biases = tuple(factor * k for k in kernels.biases)
        larger = replace(made, kernels=replace(kernels, biases=biases, weights=weights))
        return choosers._at_usual_rate(larger)

    one, four = times(2.0**20), times(2.0**22)
    assert list(one.gains) == ["joint", "learnable"]
    for measure in one.gains:  # powers of two change no digit
        assert one.gain(measure) == four.gain(measure)
    assert one.settings["learning_rate"] == 4 * four.settings["learning_rate"]
    assert times(2.0**-40).settings["learning_rate"] == choosers.MOST_RATE
    assert times(0.0).settings["learning_rate"] == choosers.MOST_RATE
    late = made.kernels.biases[len(made.layers) // 2 :]
    squares = sum(float(np.trace(k)) / len(k) for k in late)
    squares += sum(
        float(np.trace(made.kernels.weights[i][1.0])) / len(late[0])
        for i in range(len(made.layers) // 2, len(made.layers))
    )
    rate = 2 * choosers.OVERSHOOT / squares / 2**20
    assert one.settings["learning_rate"] == pytest.approx(rate, rel=1e-5)  # kernels are float32
