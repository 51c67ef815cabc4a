"""Real targets in every function: quantize, fit, compare, auto, plan; and spans of their own."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcutrain
from mcutrain.cli import select_output
from mcutrain.data import Targets, load
from mcutrain.errors import DataError
from mcutrain.experiments import finalists
from mcutrain.functions import selecting
from mcutrain.functions.board_training import BoardRun
from mcutrain.functions.listener import Listener
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.target import load_target
from tests.cli.conftest import called
from tests.quant.networks import OnnxNetwork
from tests.simulation.networks import detector

HEADER = "a,b,c,warm,load"


def table(path: Path, count: int = 120, load_unit: float = 1000.0) -> Path:
    """Three inputs and two targets that follow of them, spans 1 and load_unit."""
    x = np.random.default_rng(1).uniform(-1, 1, (count, 3))
    y = np.stack([x[:, 0] / 2, load_unit * (x[:, 1] - x[:, 2]) / 4], axis=1)
    rows = "".join(",".join(f"{v:.5f}" for v in row) + "\n" for row in np.hstack([x, y]))
    path.write_text(f"{HEADER}\n{rows}")
    return path


def network(path: Path, outputs: int = 2) -> Path:
    net = OnnxNetwork([1, 3])
    net.save(path, net.gemm(net.op("Relu", net.gemm("input", 3, 16)), 16, outputs))
    return path


class Notes(Listener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)

    def decided(self, line: str) -> None:
        self.texts.append(line)


@pytest.mark.slow
def test_fit_learns_columns_and_its_commands_end_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, data = network(Path("m.onnx")), table(Path("t.csv"))
    told = Notes()
    found = mcutrain.fit(
        model,
        data,
        "out",
        "last:1",
        targets="warm,load",
        epochs=3,
        learning_rate=0.01,
        listener=told,
    )
    assert found.result.mae is not None
    assert found.result.mae < (found.result.mae_before or 0)
    assert any("2 real targets, warm, load" in text for text in told.texts)
    (trained,) = (text for text in told.texts if text.startswith("trained "))
    assert "MAE" in trained
    page = (found.folder / "report.html").read_text()
    for said in ("Predicted and true values", "MAE while training", f">{found.result.mae:.4g}<"):
        assert said in page
    text = (found.folder / "README.md").read_text()
    for line in text.splitlines():
        if line.startswith("mcutrain"):
            assert called(*shlex.split(line)[1:]) == 0
    assert Path("by-hand-trained.tflite").read_bytes() == found.trained.read_bytes()
    (ours,) = Path("out/project").rglob("mct_model.c")
    theirs = "by-hand-project" / ours.relative_to("out/project")
    assert ours.read_text().replace("model.int8", "by-hand") == theirs.read_text()
    planned = mcutrain.plan("out/model.int8.tflite", "out/state.mcts")
    assert planned.state_bytes == found.result.state_bytes
    assert planned.arena_bytes == found.result.arena_bytes


@pytest.mark.slow
def test_quantize_leaves_targets_out_and_says_their_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = network(tmp_path / "m.onnx"), table(tmp_path / "t.csv", load_unit=1.0)
    found = mcutrain.quantize(model, data, targets="2")
    assert found.mae is not None
    assert abs(found.mae[0] - found.mae[1]) < 0.05 * found.mae[0]
    split = load(data, input_shape=(3,), targets="2")
    by_arrays = mcutrain.quantize(model, (split.train.x, split.train.y))
    assert by_arrays.mae is not None
    assert mcutrain.quantize(model, split.train.x).mae is None
    assert mcutrain.quantize(network(tmp_path / "n.onnx", 3), data, targets="2").mae is None
    flags = ("--targets", "2", "-o", tmp_path / "m.tflite")
    assert called("quantize", model, "--calibration", data, *flags) == 0
    assert "targets         MAE" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_schemes_are_compared_by_r2_and_chosen_by_runs(tmp_path: Path) -> None:
    model, data = network(tmp_path / "m.onnx"), table(tmp_path / "t.csv")
    int8 = mcutrain.quantize(model, data, targets="2").write(tmp_path / "m.tflite")
    found = mcutrain.compare(int8, data, seeds=1, epochs=2, learning_rate=0.01, targets="2", jobs=1)
    assert {row.measure for row in found.rows} == {"R²"}
    assert "an R² of" in found.summary()
    alone = mcutrain.simulate(int8, data, "head", epochs=2, learning_rate=0.01, targets="2")
    assert found.rows[0].accuracies == (alone.r2,)
    auto = mcutrain.auto_scheme(int8, data, targets="2")
    assert auto.scheme in ("head", "full")
    x = np.zeros((8, 3), np.float32)
    y = np.arange(8, dtype=np.float32)
    with pytest.raises(DataError, match="the same in all test samples"):
        mcutrain.compare(int8, ((x, y), (x[:2], y[:1].repeat(2))), seeds=1, jobs=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_selected_schemes_are_trained_and_chosen_by_r2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = network(tmp_path / "m.onnx"), table(tmp_path / "t.csv", 200)
    int8 = mcutrain.quantize(model, data, targets="2").write(tmp_path / "m.tflite")
    run = {"learning_rate": 0.01, "epochs": 2}
    analysis = mcutrain.analyze(int8, data, by="gradient", targets="2", learning_rate=0.01)
    trained, kept = selecting.best_trained, list[selecting.TrainedSelection]()
    monkeypatch.setattr(selecting, "best_trained", lambda *a: kept.append(trained(*a)) or kept[0])
    select = ("select", int8, "--analysis", analysis.write(tmp_path / "a.json"))
    flags = ("--data", data, "--targets", 2, "--epochs", 2, "--lr", 0.01, "--jobs", 1)
    capsys.readouterr()
    assert called(*select, "--sram", "8K", "--finalists", 3, *flags) == 0
    r2 = [one.accuracy for one in kept[0].finalists]
    assert (len(r2), r2) == (2, sorted(r2, reverse=True))
    assert f"an R² of {r2[0]:.3f} of held-out samples" in kept[0].summary()
    whole = load(data, input_shape=(3,), targets="2")
    parts = finalists.part(whole.train)
    pairs = ((parts.train.x, parts.train.y), (parts.test.x, parts.test.y))
    assert mcutrain.simulate(int8, pairs, kept[0].selection.scheme, **run).r2 == r2[0]
    sweep = mcutrain.select_for_budgets(int8, analysis, [276], data, targets="2", jobs=1, **run)
    (point,) = sweep.points
    assert point.found is not None
    wanted = mcutrain.simulate(int8, data, point.found.scheme, targets="2", **run)
    assert (sweep.to_dict()["trained_measure"], point.trained) == ("R²", wanted.r2)
    select_output.show_points(sweep, json=False)
    said, told = (" ".join(text.split()) for text in capsys.readouterr())
    for text in ("R² on 32 other", "2 targets: train", "trained, R²"):
        assert text in said
    assert {f"{value:.4f}" for value in (*r2, wanted.r2)} <= set(said.split())
    assert f"joint seed 0: R² {mcutrain.simulate(int8, pairs, 'head', **run).r2_before:.4f}" in told
    assert "nan" not in said + told
    x, y = whole.train.x, whole.train.y
    same = np.where(np.arange(len(y)) == 0, 1.0, y[0, 1]).astype(np.float32)
    for other, samples, sentence in (
        (analysis, (x, np.arange(len(y)) % 2), "has classes, but the analysis is of real targets"),
        (replace(analysis, settings={}), (x, y), "has real targets, but the analysis is of class"),
        (analysis, (x, np.stack([y[:, 0], same], axis=1)), "the same in all samples that schemes"),
    ):
        with pytest.raises(DataError, match=sentence):
            mcutrain.select_by_training(int8, other, samples, 2, sram=8192, **run)


@pytest.mark.filterwarnings("ignore")
def test_where_not_all_fits_gradients_say_what_is_trained(tmp_path: Path) -> None:
    model, data = network(tmp_path / "m.onnx"), table(tmp_path / "t.csv")
    int8 = mcutrain.quantize(model, data, targets="2").write(tmp_path / "m.tflite")
    whole = mcutrain.auto_scheme(int8, data, targets="2", sram=4096)
    assert whole.scheme in ("head", "full")
    step = mcutrain.simulate(int8, data, "full", epochs=1, learning_rate=0.01, targets="2")
    less = mcutrain.auto_scheme(int8, data, targets="2", sram=step.sram_bytes - 8)
    assert "by gradients" in less.reason
    assert less.sram_bytes < step.sram_bytes


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4)), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_targets_of_unlike_spans_have_units_of_their_own(
    columns: list[tuple[float, float]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    shares = np.concatenate([[0.0, 1.0], random.uniform(0, 1, 6)])
    y = np.stack([low + span * shares for low, span in columns], axis=1).astype(np.float32)
    spans = y.max(axis=0).astype(np.float64) - y.min(axis=0)
    if spans.min() < 1e-3:
        return  # float32 has rounded it away
    targets = Targets.spanning(y)
    assert bool(targets.units) == (spans.max() > 4 * spans.min())
    assert targets.clipped(y) == 0
    units: npt.NDArray[np.float64] = np.array(targets.units or (1.0,))
    assert (np.abs(targets.reals(targets.codes(y)) - y) <= targets.scale * units / 64).all()
    if targets.units:
        assert (spans / units / targets.scale > 200).all()
    assert Targets(**{k: tuple(v) if isinstance(v, list) else v for k, v in
                      targets.to_dict().items()}) == targets  # fmt: skip


def test_a_head_of_its_own_says_what_one_scale_costs_and_a_new_one_that_it_does_not(
    tmp_path: Path,
) -> None:
    model, data = network(tmp_path / "m.onnx"), table(tmp_path / "t.csv", load_unit=0.01)
    int8 = mcutrain.quantize(model, data, targets="2").write(tmp_path / "m.tflite")
    r2 = {}
    for classes in ("keep", 2):
        how = {"epochs": 6, "learning_rate": 0.01, "targets": "2", "classes": classes}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            r2[classes] = mcutrain.simulate(int8, data, "last:1", **how).r2
        said = " ".join(str(one.message) for one in told)
        assert ("of 255 steps of the outputs" in said) == (classes == "keep")
        assert ("one scale would leave the least 2." in said) == (classes == 2)
    assert r2[2] > r2["keep"]


def test_a_boards_run_says_its_error_where_there_is_no_accuracy(tmp_path: Path) -> None:
    scores = [{"mae": mae, "r2": 0.5} for mae in (0.51239, 0.25)]
    known = {"before": None, "resumed": None, "accuracy": None, "position": 3, "total": 4}
    outcome = SimpleNamespace(
        **known, scores_before=scores[0], scores=scores[1], identity=SimpleNamespace(board="b")
    )
    found = BoardRun(outcome, None, b"", tmp_path, tmp_path, {})  # type: ignore[arg-type]
    assert found.summary() == "MAE 0.5124 → 0.25, 3 of 4 steps on b"
    outcome.scores_before = None
    assert found.summary() == "3 of 4 steps on b"


@pytest.mark.filterwarnings("ignore")
def test_names_of_classes_are_refused_where_numbers_are_learnt(tmp_path: Path) -> None:
    model, data = network(tmp_path / "m.onnx"), table(tmp_path / "t.csv")
    int8 = mcutrain.quantize(model, data, targets="2").write(tmp_path / "m.tflite")
    how = {"targets": "2", "class_names": ("warm", "load")}
    with pytest.raises(DataError, match="leave out --class-names"):
        mcutrain.simulate(int8, data, "head", **how)
    targets = Targets.spanning(np.eye(2, dtype=np.float32))
    one = StepOptions(classes=2, loss="mse", targets=targets)
    for name, graph, options in (
        ("one", mcutrain.load(int8), one),
        (
            "several",
            detector("boxes,classes"),
            StepOptions(losses="boxes=mse,classes=cross-entropy"),
        ),
    ):
        firmware = prepare(graph, "head", options).firmware(load_target("native"))
        firmware.write(tmp_path / name)
    board = {"port": "socket://127.0.0.1:1", "learning_rate": 0.01}
    with pytest.raises(DataError, match="leave out --class-names"):
        mcutrain.train_board(tmp_path / "one", data, **how, **board)
    rows = {"x": np.zeros((8, 4, 4, 3), np.int8), "boxes": np.zeros((8, 4)), "classes": np.ones(8)}
    np.savez(tmp_path / "rows.npz", **rows)
    with pytest.raises(DataError, match="class names are of one output"):
        mcutrain.train_board(
            tmp_path / "several", tmp_path / "rows.npz", class_names=("a", "b"), **board
        )
