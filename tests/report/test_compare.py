"""`mcutrain compare`: one table, the same numbers as the other commands, and no work lost."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcutrain import data as datasets
from mcutrain import demo
from mcutrain.data import Split
from mcutrain.errors import AnalysisError, McutrainError
from mcutrain.pipeline import load, prepare
from mcutrain.report.compare import LAST, Budget, last_that_fits, selected, usual
from mcutrain.report.content import Report
from mcutrain.report.folder import with_selection
from mcutrain.report.html import sections_of
from mcutrain.report.json_values import from_json
from mcutrain.report.training_sections import accuracy_text
from mcutrain.runs import parallel as runs
from mcutrain.runs import training as api
from mcutrain.runs.parallel import Lesson, Trial, train_all
from mcutrain.runs.training import load_data
from mcutrain.simulation import RunSettings
from mcutrain.sparse import UpdateScheme, find_head, layers_of
from mcutrain.sparse.contribution import Contributions, Gains, digest
from mcutrain.target import load_target
from tests.cli.conftest import Run
from tests.host.test_cache import DAMAGES
from tests.host.test_files import full_disk

FEW = ("--samples", 24, "--test-samples", 40, "--epochs", 1, "--lr", "0.03")
PATIENCE_SECONDS = 120


@pytest.mark.slow
def test_a_row_says_what_plan_and_simulate_say(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    board = ("--board", "nucleo-f446re")
    flags = ("--data", images, *FEW)
    given = ("--scheme", "fashion-sparse", "--seeds", 2, "-o", "c")
    outcome = run("compare", model, *flags, *board, *given)
    assert outcome.code == 0, outcome.err
    written = from_json(Report, (tmp_path / "c/report.json").read_text(), "report.json")
    rows = {row.name: row for row in written.comparison}
    assert list(rows) == ["head only", "biases only", "last 7", "full", "fashion-sparse"]
    row = rows["fashion-sparse"]
    planned = run("plan", model, "--scheme", "fashion-sparse", *board, "--json").json["board"]
    assert (row.sram_bytes, row.sram_limit) == (planned["sram_bytes"], planned["chip_sram_bytes"])
    assert (row.fits, rows["full"].fits) == (True, False)
    drawn = datasets.load(images, samples=24, test_samples=40, seed=0)  # once, for all of its seeds
    parts = {"train": drawn.train, "test": drawn.test}
    arrays = {f"{key}_{name}": getattr(p, key) for name, p in parts.items() for key in "xy"}
    np.savez(tmp_path / "drawn.npz", **arrays, names=np.array(drawn.names))
    seed_1 = ("--scheme", "fashion-sparse", "--seed", 1, "--json", *FEW[4:])
    simulated = run("simulate", model, "--data", "drawn.npz", *seed_1).json
    assert row.accuracies[1] == simulated["accuracy"]
    assert accuracy_text(row) in outcome.out
    assert "SRAM: all that the firmware takes of NUCLEO-F446RE, stack included." in outcome.out
    assert outcome.out.endswith("The report is c/report.html\n")
    assert 50_000 < (tmp_path / "c/report.html").stat().st_size < 1_500_000


def test_last_k_is_the_largest_that_fits() -> None:
    graph = load(demo.MODEL)
    budget = Budget(load_target("nucleo-f446re"))
    assert budget.limit is not None
    k = last_that_fits(graph, None, budget, 25)
    needs = [budget.needs(prepare(graph, f"last:{i}")) for i in (k, k + 1)]
    assert needs[0] <= budget.limit < needs[1]


def test_the_selected_scheme_is_of_this_model_and_reported() -> None:
    graph = load(demo.MODEL)
    names = tuple(layer.name for layer in layers_of(graph, find_head(graph)))
    gains = Gains((0.0, *(0.01 for _ in names)), {24: {1.0: 0.02}})
    head = {"accuracy": 0.7}
    found = Contributions("m", digest(graph), 10, "training", names, head, {"accuracy": gains})
    chosen = selected(graph, None, Budget(sram_bytes=60_000), found)
    assert (chosen.scheme.bias_depth, dict(chosen.scheme.weights)) == (1, {"24": 1.0})
    report = with_selection(Report("m"), chosen, found)
    assert report.selection is not None
    assert report.selection.gain == pytest.approx(0.03)
    assert [s.name for s in sections_of(report)] == ["selection", "contributions"]
    with pytest.raises(AnalysisError, match="is an analysis of another model, 'm'"):
        selected(graph, None, Budget(sram_bytes=60_000), replace(found, model_digest="0"))


def test_without_a_limit_the_last_six_are_compared() -> None:
    graph = load(demo.MODEL)
    names = [c.name for c in usual(graph, None, Budget())]
    assert names == ["head only", "biases only", f"last {LAST}", "full"]
    assert [c.name for c in usual(graph, None, Budget(sram_bytes=1))][2] == "last 1"
    assert "last 25" not in [c.name for c in usual(graph, None, Budget(sram_bytes=10**9))]


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(model: Path, images: Path) -> None:
    flags = ("--samples", 2000, "--test-samples", 20, "--epochs", 9, "--seeds", 1, "--jobs", 1)
    flags = (*flags, "--lr", 0.03)
    command = ["compare", model, "--data", images, *flags]
    cache = Path(os.environ["MCUTRAIN_CACHE"])
    earlier = set(cache.glob("runs/*.npz"))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcutrain.cli", *map(str, command)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    waited = time.monotonic()
    while set(cache.glob("runs/*.npz")) == earlier:
        assert time.monotonic() - waited < PATIENCE_SECONDS
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (130, ""), err
    assert err.splitlines()[-1] == (
        "mcutrain: interrupted, 0 of 4 runs are done; the same command continues, also the others"
    )
    assert len(set(cache.glob("runs/*.npz")) - earlier) == 1
    assert not list(cache.glob("runs/.*"))


def test_checkpoints_that_nobody_continues_go_after_a_month(
    model: Path, images: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path))
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, days in (("old", 31), ("new", 29)):
        path = folder / f"{name}.npz"
        path.touch()
        stamp = time.time() - days * 24 * 3600
        os.utime(path, (stamp, stamp))
    split = load_data(load(model), images)
    assert train_all(Lesson(model, (), None, split, RunSettings()), [], 1) == []
    assert [path.name for path in folder.iterdir()] == ["new.npz"]


@pytest.mark.filterwarnings("ignore:the learning rate .* was found, but")
def test_the_rate_of_a_row_is_judged_by_the_validation_part(model: Path, images: Path) -> None:
    graph, whole = load(model), load_data(load(model), images)
    parts = Split(whole.train.subset(24), whole.test.part(0, 8))
    wrong = whole.test.part(8, 40)
    wrong = replace(wrong, y=(wrong.y + 1) % wrong.classes)
    settings = RunSettings(epochs=1)
    rates = []
    for split in (parts, replace(parts, validation=wrong)):
        (result,) = train_all(
            Lesson(model, (UpdateScheme(),), None, split, settings), [Trial(0, 0)], 1
        )
        assert (
            result.learning_rate == api.train(prepare(graph, "head"), split, settings).learning_rate
        )
        rates.append(result.learning_rate)
    assert rates[1] < rates[0]  # there, whatever is learnt is wrong


@pytest.mark.parametrize("kind", ["empty", "short", "flipped"])
def test_a_damaged_checkpoint_in_the_cache_is_begun_anew(
    kind: str, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = load_data(load(model), images)
    split = Split(whole.train.subset(16), whole.test.subset(8))
    lesson = Lesson(model, (UpdateScheme(),), None, split, RunSettings(epochs=1))
    monkeypatch.setattr("mcutrain.runs.parallel.cache_folder", lambda: tmp_path)
    folder = tmp_path / "samples"
    folder.mkdir()
    runs._save(split, folder)
    order = runs._Order(
        runs._plain(lesson.schemes[0]), 0, 0, model, None, lesson.settings, None, 1, None,
        folder, os.getppid(),
    )  # fmt: skip
    expected = runs._work(order)
    (checkpoint,) = (tmp_path / "runs").glob("*.npz")
    checkpoint.write_bytes(DAMAGES[kind](checkpoint.read_bytes(), random.Random(kind)))
    found = runs._work(order)
    assert expected is not None
    assert found is not None
    assert (found.saved, found.accuracy) == (expected.saved, expected.accuracy)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--scheme", "nonsense"), "is not an update scheme"),
        (("--scheme", "999:1"), "names the layer '999'"),
        (("--board", "nowhere"), "there is no board 'nowhere'"),
    ],
)
def test_what_cannot_be_compared_is_said_before_training(
    run: Run, model: Path, images: Path, flags: tuple[object, ...], says: str
) -> None:
    assert says in run("compare", model, "--data", images, *FEW, *flags).sentence


def test_a_board_and_bytes_exclude_each_other(run: Run, model: Path, images: Path) -> None:
    outcome = run("compare", model, "--data", images, "--board", "nucleo-f446re", "--sram", "64K")
    assert outcome.code == 2
    assert "not both" in outcome.err


def test_samples_that_do_not_fit_on_the_disk_are_a_sentence(images: Path, tmp_path: Path) -> None:
    split = datasets.load(images, samples=10, test_samples=10)
    with full_disk(), pytest.raises(McutrainError, match=r"do not fit into .*: set TMPDIR"):
        runs._save(split, tmp_path)


def test_a_failing_run_ends_the_comparison_with_its_sentence(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    sentence = run("compare", model, "--data", images, *FEW, "--seeds", 1).sentence
    assert "no-such-compiler" in sentence


def test_the_gate_of_a_comparison_is_that_of_its_runs(model: Path, images: Path) -> None:
    graph, whole = load(model), load_data(load(model), images)
    split = Split(whole.train.subset(24), whole.test.part(0, 8))
    settings = RunSettings(epochs=2, learning_rate=0.03)
    lesson = Lesson(model, (UpdateScheme(),), None, split, settings, gate=1.0)
    (result,) = train_all(lesson, [Trial(0, 0)], 1)
    assert result.saved == api.train(prepare(graph, "head", gate=1.0), split, settings).saved
    assert result.skipped
