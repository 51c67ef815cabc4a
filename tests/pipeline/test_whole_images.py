"""A computer keeps whole images where a board computes row by row: the bits are the same."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain import data
from mcutrain.memplan import Stream
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.runs import training
from mcutrain.runs.training import fastest_simulator
from mcutrain.simulation import LatentSimulator, RunSettings
from tests.memplan.test_stream import mobile_network
from tests.simulation import networks

STEPS = 4
CLASSES = 4


def split_of(step: TrainingStep, count: int = 6) -> data.Split:
    x, y = networks.samples(step.graph, count, CLASSES)
    part = data.Dataset(x, np.asarray(y, np.int64), tuple("abcd"))
    return data.Split(part, part)


@pytest.mark.parametrize("scheme", ["head", "bias:2"])
def test_states_equal_those_of_the_step_that_computes_row_by_row(scheme: str) -> None:
    step = prepare(mobile_network(), scheme)
    assert step.plan.segments
    here = step.for_this_computer()
    rows, whole, reference = step.simulator(7), here.simulator(7), step.reference(7)
    x, labels = networks.samples(step.graph, STEPS, CLASSES)
    trained = [[list(v) for v in s.train(x, labels, networks.rates(STEPS))]
               for s in (rows, whole, reference)]  # fmt: skip
    assert trained[0] == trained[1] == trained[2]
    assert rows.save() == whole.save() == reference.save()
    np.testing.assert_array_equal(rows.infer(x), whole.infer(x))
    whole.load(rows.save())


def test_only_places_differ() -> None:
    step = prepare(mobile_network(), "head")
    before = step.plan
    here = step.for_this_computer()
    assert before.segments
    assert not here.plan.segments
    assert here.plan.arena_bytes > step.plan.arena_bytes
    assert here.plan.nodes == step.plan.nodes
    assert here.plan.state == step.plan.state
    assert here.project.model_hash == step.project.model_hash
    assert step.plan is before


@pytest.mark.parametrize("stream", ["least", "max", "off"])
def test_who_asks_for_rows_has_them(stream: Stream) -> None:
    step = prepare(mobile_network(), "head", stream=stream)
    assert step.for_this_computer() is step


@pytest.mark.parametrize(("latent", "images"), [("off", 3 * 6 + 4 * 6), ("auto", 6 + 6)])
def test_a_run_has_whole_images_where_a_second_plan_pays(
    latent: str, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = prepare(mobile_network(), "head")
    settings, split = RunSettings(epochs=3), split_of(step)
    macs = images * step.plan.training.forward.macs()
    for least, is_whole in ((macs + 1, False), (macs, True)):
        monkeypatch.setattr(training, "WHOLE_IMAGES_MACS", least)
        made = fastest_simulator(step, split, settings, latent=latent)
        assert isinstance(made, LatentSimulator) == (latent == "auto")
        assert (made.plan.segments == ()) == is_whole
