"""The table of the state: everybody who reads a state finds its sections there, new ones too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host.errors import ProjectError
from mcutrain_host.manifest import Manifest
from mcutrain_host.saved import COUNTERS, HEADER_BYTES, numbers, selected_tensors
from mcutrain_host.state import StateTable

from mcutrain import demo, pipeline, prepare
from mcutrain.autodiff import TrainGraph
from mcutrain.autodiff.state_kinds import StateKind
from mcutrain.features import FACTS
from mcutrain.features.policy_feedback import Drift
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder, state, state_parts
from mcutrain.memplan.state import Words
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.rates import LearningRate
from mcutrain.trained.graph import trained_tensors
from tests.proxies import ladders

STEPS = 6
TRIAL = Words("trial", "uint32", lambda training: 3, "numbers that nothing computes with")
MOMENTUM = StateKind("momentum", "a trial of what another rule of updates may keep")


def made(**options: Any) -> TrainingStep:
    return prepare(demo.network(), "fashion-sparse", **options)


def all_features() -> TrainingStep:
    """A step with every feature that keeps words in the state."""
    features = {"gate": 0.8, "elastic": True, "swap": "fisher", "accumulate": 2}
    return made(**features, ladder=_ladder, drift=True)


def _ladder(front_of: Callable[[str], Graph]) -> Ladder:
    whole = front_of("auto")
    proxies = tuple(ladders.first_channels(whole, share) for share in (0.75, 0.5))
    return Ladder(whole.outputs[0], proxies, ladders.policy_of_brightness(whole, 3))


def manifest_of(step: TrainingStep, folder: Path) -> Manifest:
    """As a host tool reads it."""
    step.project.write(folder)
    return Manifest.read(folder / "manifest.json")


def trained(step: TrainingStep) -> tuple[Any, Any]:
    """numpy and the C after the same steps; both chose columns and tensors."""
    reference, compiled = step.reference(3), step.simulator(3)
    training, rng = step.plan.training, np.random.default_rng(1)
    x = rng.integers(-128, 128, (STEPS, *training.input_type.shape[1:])).astype(np.int8)
    rates = [LearningRate.of(0.03)] * STEPS
    for simulator in (reference, compiled):
        if training.elastic:
            simulator.select([0, 3])
        if training.resampled:
            simulator.resample()
        simulator.train(x, [i % training.classes for i in range(STEPS)], rates)
    return reference, compiled


def assert_read_by_all(step: TrainingStep, folder: Path) -> None:
    """numpy = C, each loads the other's state, and host tools find what features counted."""
    reference, compiled = trained(step)
    saved = reference.save()
    assert saved == compiled.save()
    again, other = step.reference(), step.simulator()
    again.load(saved)
    other.load(saved)
    assert again.save() == other.save() == saved
    manifest, training = manifest_of(step, folder), step.plan.training
    assert manifest.table == step.plan.state.table
    facts = {"skipped": reference.skipped} if training.gate else {}
    if training.levels is not None:
        facts |= {"levels": tuple(reference.level_samples)}
        facts |= {"drift": Drift.of(reference.words).offset / 4}
    assert FACTS.read(saved, manifest.table) == facts
    names = [tensor.name for tensor in training.elastic]
    chosen = tuple(names[i] for i in reference.selected)
    assert selected_tensors(saved, manifest.table, names) == chosen
    for name, value in reference.state.items():
        if name in step.plan.state_offsets:
            np.testing.assert_array_equal(step.plan.state.unpack(saved[HEADER_BYTES:])[name], value)
    assert sum(state_parts(step.plan).values()) == step.plan.state_bytes
    assert trained_tensors(step, saved).keys() == trained_tensors(made(), made_state()).keys()


def made_state() -> bytes:
    """Of the same scheme without any feature."""
    return made().reference().save()


def test_sections_follow_one_another_and_fill_the_state() -> None:
    layout = all_features().plan.state
    sections = layout.table.sections
    assert sections[0].kind == "counters"
    assert sections[0].size_bytes == COUNTERS.size
    for one, following in pairwise(sections):
        assert one.end <= following.offset < one.end + 4
    assert layout.kept_bytes - 4 < sections[-1].end <= layout.kept_bytes
    assert {word.kind for word in layout.words} == {row.kind for row in (state.HEAD, *state.WORDS)}
    assert all(section.purpose for section in sections)


def test_every_reader_knows_a_step_with_all_features(tmp_path: Path) -> None:
    assert_read_by_all(all_features(), tmp_path / "project")


@pytest.mark.parametrize("place", [0, 3, len(state.WORDS)])
def test_a_new_section_is_a_row(place: int, monkeypatch: Any, tmp_path: Path) -> None:
    """Wherever it lies, so that the others lie elsewhere than before."""
    before = all_features().plan
    rows = (*state.WORDS[:place], TRIAL, *state.WORDS[place:])
    monkeypatch.setattr(state, "WORDS", rows)
    step = all_features()
    assert step.plan.state_bytes == before.state_bytes + 12
    assert_read_by_all(step, tmp_path / "project")
    reference, compiled = step.reference(), step.simulator()
    reference.words["trial"][:] = (1, 2, 2**32 - 1)
    compiled.load(reference.save())
    table = Manifest.read(tmp_path / "project" / "manifest.json").table
    assert numbers(compiled.save(), table, "trial") == (1, 2, 2**32 - 1)


def test_a_new_kind_of_tensor_is_a_row(monkeypatch: Any, tmp_path: Path) -> None:
    """As an update rule would keep one for each trained weight."""
    plain, differentiated = made(gate=0.5), pipeline.differentiated

    def with_momentum(*arguments: Any) -> tuple[Any, TrainGraph]:
        order, training = differentiated(*arguments)
        weights = {n: v for n, v in training.state.items() if training.kinds[n].name == "weights"}
        more = {f"{name}.momentum": np.zeros_like(value) for name, value in weights.items()}
        kinds = dict.fromkeys(more, MOMENTUM)
        kept = {**training.state, **more}
        return order, replace(training, state=kept, kinds={**training.kinds, **kinds})

    monkeypatch.setattr(pipeline, "differentiated", with_momentum)
    step = made(gate=0.5)
    parts = state_parts(step.plan)
    assert parts["momentum"] == parts["weights"]
    for kind, size in state_parts(plain.plan).items():
        assert kind == "counters_and_padding" or parts[kind] == size
    assert_read_by_all(step, tmp_path / "project")


def test_the_manifest_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """It has tensors alone in its table, and said where words lie with each feature."""
    step = all_features()
    reference, _ = trained(step)
    reference.skipped, reference.level_samples = 12345, [5, 6, 7]
    saved = reference.save()
    now = manifest_of(step, tmp_path / "project")
    path = tmp_path / "project" / "manifest.json"
    values = json.loads(path.read_text())
    words = {word.kind for word in step.plan.state.words}
    values["state"] = [
        {key: section[key] for key in ("name", "offset", "dtype", "shape")}
        for section in values["state"]
        if section["kind"] not in words
    ]
    path.write_text(json.dumps(values))
    then = Manifest.read(path)
    assert len(then.state) == len(now.state) - len(words)
    assert FACTS.read(saved, then.table) == FACTS.read(saved, now.table)
    assert FACTS.read(saved, then.table)["skipped"] == 12345
    names = then.elastic.tensors if then.elastic else ()
    chosen = selected_tensors(saved, now.table, names)
    assert chosen == selected_tensors(saved, then.table, names) != ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float64"}, "float64"),
        ({"offset": -4}, "-4"),
        ({"shape": [-1]}, "-1"),
        ({"offset": 10**6}, "behind the state"),
    ],
)
def test_an_impossible_section_is_a_sentence(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    made(gate=0.5).project.write(tmp_path / "project")
    path = tmp_path / "project" / "manifest.json"
    values = json.loads(path.read_text())
    values["state"][1] |= change
    path.write_text(json.dumps(values))
    with pytest.raises(ProjectError, match=message):
        Manifest.read(path)


def test_a_step_without_features_keeps_counters_alone() -> None:
    plan = made().plan
    assert [word.kind for word in plan.state.words] == ["counters"]
    assert FACTS.read(made_state(), plan.state.table) == {}
    assert FACTS.read(made_state(), StateTable()) == {}
