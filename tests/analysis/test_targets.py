"""Real targets: what training contributes is measured by the share of their variance."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mcutrain.analysis.problem import Problem
from mcutrain.analysis.trial import evaluate
from mcutrain.data import Dataset, Split
from mcutrain.errors import AnalysisError, DataError
from mcutrain.functions.automatic import auto_scheme
from mcutrain.functions.choosing import select
from mcutrain.functions.learning import analyze
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.pipeline.losses import fit_targets
from mcutrain.selection.contribution import Contributions
from tests.analysis.conftest import two_layers
from tests.simulation.networks import Network, same

COUNT, GRAPH, SRAM = 80, two_layers(), 2_000


def learnable(count: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Samples whose mean is the target, in two units."""
    rng, shape = np.random.default_rng(0), GRAPH.tensors[GRAPH.inputs[0]].type.shape[1:]
    level = rng.uniform(-60, 60, (count, 1, 1, 1))
    x = np.clip(level + rng.normal(0, 20, (count, *shape)), -128, 127).astype(np.int8)
    mean = x.reshape(count, -1).mean(axis=1)
    return x, np.stack([mean, 100 - 2 * mean], axis=1).astype(np.float32)


def split_of(x: npt.NDArray[np.int8], y: npt.NDArray[np.float32], *parts: slice) -> Split:
    return Split(*(Dataset(x[part], y[part], ("a", "b")) for part in parts))


@pytest.fixture(scope="module")
def found() -> Contributions:
    more = {"gradient_samples": 16, "epochs": 2, "head_epochs": 20}
    return analyze(GRAPH, learnable(COUNT), "gradient", learning_rate=0.1, **more)


def test_an_analysis_says_what_is_explained(found: Contributions) -> None:
    assert found.classes == 2
    assert found.head["loss"] == pytest.approx(found.head["r2"] - 1)
    assert found.head["r2"] > 0.05, "the head alone learns a mean of the sample"
    joint = found.gains["joint"]
    assert joint.bias[-1] > 0
    assert found.settings["targets"]["scale"] > 0


def test_a_selection_plans_the_loss_that_was_analysed(found: Contributions, tmp_path: Path) -> None:
    chosen = select(GRAPH, found, sram=SRAM)
    fitted = fit_targets(GRAPH, split_of(*learnable(COUNT), *[slice(COUNT)] * 2), "auto")
    found.write(tmp_path / "analysis.json")
    assert select(GRAPH, tmp_path / "analysis.json", sram=SRAM).scheme == chosen.scheme
    step = prepare(GRAPH, chosen.scheme, StepOptions(classes=2, loss="mse", targets=fitted.targets))
    assert chosen.measured.sram_bytes == step.plan.sram_bytes
    damaged = {**found.settings, "targets": {"scale": "x"}}
    with pytest.raises(AnalysisError, match="analyze again"):
        select(GRAPH, Contributions(**{**vars(found), "settings": damaged}), sram=SRAM)


@pytest.mark.slow
def test_training_every_candidate_ranks_by_r2() -> None:
    net = Network((5, 5, 3), seed=2)
    graph = net.graph(net.conv(net.mean(net.conv(net.x, 6, same(3), relu=True)), 2))
    trained = analyze(
        graph, learnable(48), "training", classes=2, learning_rate=0.1, epochs=1, samples=24, jobs=1
    )
    assert set(trained.gains) == {"r2", "loss"}
    assert trained.gains["r2"].bias == pytest.approx(trained.gains["loss"].bias)
    assert trained.head["r2"] <= 1


def test_a_candidate_that_diverges_outweighs_no_other() -> None:
    x, y = learnable(16)
    fitted = fit_targets(GRAPH, split_of(x, y, *[slice(16)] * 2), "auto")
    step = prepare(GRAPH, "head", StepOptions(classes=2, loss="mse", targets=fitted.targets))
    diverged: Any = SimpleNamespace(plan=step.plan, infer=lambda x: np.full((len(x), 2), 127))
    cut: Any = SimpleNamespace(ordered=lambda x: x, targets=fitted.targets)
    assert evaluate(diverged, cut, x, fitted.split.train.y) == {"r2": -1.0, "loss": 2.0}


def test_a_scheme_for_little_memory_is_chosen_by_gradients() -> None:
    chosen = auto_scheme(GRAPH, learnable(COUNT), sram=600, loss="mse")
    assert "by gradients" in chosen.reason, chosen.reason


def test_targets_that_do_not_differ_get_a_sentence() -> None:
    x, y = learnable(8)
    y[4:, 1] = 3
    fitted = fit_targets(GRAPH, split_of(x, y, slice(8), slice(4, 8)), "auto")
    with pytest.raises(DataError, match="a target is the same in all 4 test samples"):
        Problem.of(GRAPH, fitted.split, fitted.classes, targets=fitted.targets)
