"""`mcutrain compare`: one table, the same numbers as the other commands, and no work lost."""

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcutrain import data as datasets
from mcutrain import demo, prepare
from mcutrain.cost.elastic import estimated_times
from mcutrain.data import Split
from mcutrain.errors import AnalysisError, ArgumentError, McutrainError
from mcutrain.experiments import parallel as runs
from mcutrain.experiments.parallel import Elastic, Lesson, Resampling, SchemeWay, Trial, train_all
from mcutrain.experiments.planner import LAST, Budget, Planner, last_that_fits, selected, usual
from mcutrain.experiments.rows import PlannedRow, Proxies, elastic_rows, with_ladders_scheme
from mcutrain.functions.training import train
from mcutrain.pipeline import StepOptions, load
from mcutrain.report.content import Report
from mcutrain.report.folder import with_selection
from mcutrain.report.html import sections_of
from mcutrain.report.json_values import from_json
from mcutrain.report.learning import Compared
from mcutrain.report.training_sections import accuracy_text
from mcutrain.runs.sample_reading import load_data
from mcutrain.selection.contribution import Contributions, Gains, digest
from mcutrain.simulation import RunSettings
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme
from mcutrain.target import load_target
from tests.cli.conftest import Run
from tests.host.test_cache import DAMAGES
from tests.host.test_files import full_disk

FEW = ("--samples", 24, "--test-samples", 40, "--epochs", 1, "--lr", "0.03")
PATIENCE_SECONDS = 120


@pytest.mark.slow
def test_a_usual_row_that_is_asked_for_is_trained_once(run: Run, model: Path, images: Path) -> None:
    asked = ("--scheme", "head", "--scheme", "last:2", "--seeds", 1, "-o", "c")
    outcome = run("compare", model, "--data", images, *FEW, "--sram", "40K", *asked, "--json")
    assert outcome.code == 0, outcome.err
    names = [row["name"] for row in outcome.json["rows"]]
    assert names[0] == "biases only"
    assert names[-2:] == ["head", "last:2"]
    assert "head only" not in names


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
    assert list(rows) == ["head only", "biases only", "last 9", "full", "fashion-sparse"]
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
    k = last_that_fits(graph, StepOptions(), budget, 25)
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
    names = [c.name for c in usual(graph, StepOptions(), Budget())]
    assert names == ["head only", "biases only", f"last {LAST}", "full"]
    assert [c.name for c in usual(graph, StepOptions(), Budget(sram_bytes=1))][2] == "last 1"
    assert "last 25" not in [c.name for c in usual(graph, StepOptions(), Budget(sram_bytes=10**9))]


INTERRUPTED_WHILE_A_PROCESS_TRAINS = """
import os, signal, time
from mcutrain.cli import main
from mcutrain.experiments import parallel
begin = parallel._ignore_interrupts
def begin_and_interrupt():
    from mcutrain.experiments.parallel import _Telling
    begin()
    train = _Telling.training
    def interrupt_and_train(self, progress):
        os.kill(self.parent, signal.SIGINT)
        while not self.stop.exists():
            time.sleep(0.01)
        train(self, progress)
    _Telling.training = interrupt_and_train
parallel._ignore_interrupts = begin_and_interrupt
main()
"""
"""A signal, as from a terminal, but at the same place on a machine of any speed."""


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(model: Path, images: Path) -> None:
    flags = ("--samples", 48, "--test-samples", 20, "--epochs", 2, "--seeds", 1, "--jobs", 1)
    command = ["compare", model, "--data", images, *flags, "--lr", 0.03]
    cache = Path(os.environ["MCUTRAIN_CACHE"])
    earlier = set(cache.glob("runs/*.npz"))
    interrupted = [sys.executable, "-c", INTERRUPTED_WHILE_A_PROCESS_TRAINS, *map(str, command)]
    done = subprocess.run(interrupted, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert done.stderr.splitlines()[-1] == (
        "mcutrain: interrupted, 0 of 4 runs are done; the same command continues, also the others"
    )
    (checkpoint,) = set(cache.glob("runs/*.npz")) - earlier
    with np.load(checkpoint) as kept:
        assert 0 < json.loads(str(kept["counts"]))["trained"] < 2 * 48
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
    assert train_all(Lesson(model, (), StepOptions(), split, RunSettings()), [], 1) == []
    assert [path.name for path in folder.iterdir()] == ["new.npz"]


@pytest.mark.slow
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
            Lesson(model, (UpdateScheme(),), StepOptions(), split, settings), [Trial(0, 0)], 1
        )
        assert result.learning_rate == train(prepare(graph, "head"), split, settings).learning_rate
        rates.append(result.learning_rate)
    assert rates[1] < rates[0]  # there, whatever is learnt is wrong


@pytest.mark.parametrize("kind", ["empty", "short", "flipped"])
def test_a_damaged_checkpoint_in_the_cache_is_begun_anew(
    kind: str, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = load_data(load(model), images)
    split = Split(whole.train.subset(16), whole.test.subset(8))
    lesson = Lesson(model, (UpdateScheme(),), StepOptions(), split, RunSettings(epochs=1))
    monkeypatch.setattr("mcutrain.experiments.parallel.cache_folder", lambda: tmp_path)
    folder = tmp_path / "samples"
    folder.mkdir()
    runs._save(split, folder)
    order = runs._Order(
        runs._plain(lesson.schemes[0]), 0, 0, model, lesson.settings, None, runs.StepMaking(),
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


@pytest.mark.slow
def test_a_failing_run_ends_the_comparison_with_its_sentence(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    sentence = run("compare", model, "--data", images, *FEW, "--seeds", 1).sentence
    assert "no-such-compiler" in sentence


@pytest.mark.slow
def test_the_gate_of_a_comparison_is_that_of_its_runs(model: Path, images: Path) -> None:
    graph, whole = load(model), load_data(load(model), images)
    split = Split(whole.train.subset(24), whole.test.part(0, 8))
    settings = RunSettings(epochs=2, learning_rate=0.03)
    lesson = Lesson(model, (UpdateScheme(),), StepOptions(gate=1.0), split, settings)
    (result,) = train_all(lesson, [Trial(0, 0)], 1)
    assert result.saved == train(prepare(graph, "head", gate=1.0), split, settings).saved
    assert result.skipped


# -------------------------------------------------------------------------------- rows of a ladder


def test_a_ladder_is_for_the_schemes_that_were_asked_for(tmp_path: Path) -> None:
    """If there are none, for that which it was made for, in a row of its own if no other has it."""
    facts = {"format": 1, "latent": "x", "front": "0", "proxies": 1}
    names = ("head only", "head"), ("last 6", "last:6")
    usual_ones = [PlannedRow(name, parse_scheme(text)) for name, text in names]
    asked = [PlannedRow(name, parse_scheme(name)) for name in ("last:2", "bias:3")]

    def made_for(scheme: str) -> Proxies:
        (tmp_path / "ladder.json").write_text(json.dumps({**facts, "scheme": scheme}))
        return Proxies(tmp_path, 0.5)

    proxies = made_for("last:6")
    selected_one = PlannedRow("selected", parse_scheme("bias:4"))
    every = [*usual_ones, *asked, selected_one]
    assert with_ladders_scheme(every, 2, 2, proxies) == (every, asked)
    without = [*usual_ones, selected_one]
    assert with_ladders_scheme(without, 2, 0, proxies) == (without, [usual_ones[1]])
    found, own = with_ladders_scheme(usual_ones, 2, 0, made_for("last:3"))
    assert [row.name for row in found] == ["head only", "last 6", "last:3"]
    assert own == found[2:]
    both = [row.name for row in proxies.rows(asked, StepOptions())]
    assert both[2:4] == ["proxies, gate 0.5: last:2", "gate 0.5: bias:3"]
    one = proxies.rows(asked[:1], StepOptions())
    assert [row.name for row in one] == ["gate 0.5", "proxies", "proxies, gate 0.5"]
    assert {row.scheme.name for row in one} == {"last:2"}
    ways = [(m.options.gate, m.ladder is None) for r in one if (m := r.way.making)]
    assert ways == [(0.5, True), (None, False), (0.5, False)]


def test_nobody_asked_for_the_scheme_of_a_ladder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that it gets is no scheme to train elastically, or to swap columns of."""
    facts = {"format": 1, "latent": "x", "front": "0", "proxies": 1, "scheme": "22:0.25,bias:4"}
    (tmp_path / "ladder.json").write_text(json.dumps(facts))
    monkeypatch.setattr(Proxies, "rows", lambda *_: [])
    planner = Planner(load(demo.MODEL), StepOptions(), Budget(), RunSettings(epochs=1), 40)
    usual_ones = [
        PlannedRow("head only", UpdateScheme()),
        PlannedRow("last", parse_scheme("last:2")),
    ]
    proxies = Proxies(tmp_path)
    found, rows = planner.rows_with(usual_ones, 2, 0, Elastic(0.9), None, proxies)
    names = ["head only", "last", facts["scheme"], "elastic 0.9 of last"]
    assert [row.name for row in found] == [row.name for row in rows] == names
    with pytest.raises(ArgumentError, match="channels are resampled of a scheme that trains"):
        planner.rows_with(usual_ones, 2, 0, None, Resampling("drawn"), proxies)


def test_a_selected_scheme_is_none_that_was_asked_for() -> None:
    """It is trained whole; elastic, or with other columns in turn, is what was given."""
    planner = Planner(load(demo.MODEL), StepOptions(), Budget(), RunSettings(epochs=1), 40)
    usual_ones = [
        PlannedRow("head only", UpdateScheme()),
        PlannedRow("last", parse_scheme("last:2")),
    ]
    selected_one = PlannedRow("selected", parse_scheme("22:0.25,bias:4"))
    given = PlannedRow("mine", parse_scheme("22:0.5,bias:4"))
    rows = planner.rows_with([*usual_ones, selected_one], 2, 0, Elastic(0.9), None)[1]
    assert [row.name for row in rows] == ["head only", "last", "selected", "elastic 0.9 of last"]
    with pytest.raises(ArgumentError, match="channels are resampled of a scheme that trains"):
        planner.rows_with([*usual_ones, selected_one], 2, 0, None, Resampling("drawn"))
    both = [*usual_ones, given, selected_one]
    rows = planner.rows_with(both, 2, 1, Elastic(0.9), Resampling("drawn"))[1]
    assert [row.name for row in rows[4:]] == ["elastic 0.9 of mine", "resampled, drawn: mine"]


# ------------------------------------------------------------------------------------- elastic rows


def test_an_elastic_row_takes_its_share_in_the_room_of_all() -> None:
    target = load_target("nucleo-f446re")
    planner = Planner(load(demo.MODEL), StepOptions(), Budget(target), RunSettings(epochs=1), 40)
    candidates = [
        PlannedRow("head only", UpdateScheme()),
        PlannedRow("mine", parse_scheme("last:2")),
    ]
    rows = planner.planned(candidates)[1]
    (candidate,) = elastic_rows(candidates, rows, 1, 1, Elastic(0.9))
    (row,) = planner.planned([candidate])[1]
    assert (row.name, row.scheme) == ("elastic 0.9 of mine", candidates[1].scheme.name)
    whole = prepare(planner.graph, "last:2", elastic=True)
    assert (row.arena_bytes, row.state_bytes) == (whole.plan.arena_bytes, whole.plan.state_bytes)
    times = estimated_times(whole.plan, target.isa)
    assert row.instructions == round(0.9 * (times.forward + times.problem.backward_time))
    assert times.forward < row.instructions < (rows[1].instructions or 0)


def test_without_a_scheme_the_largest_that_fits_is_elastic() -> None:
    names, rows = ("head only", "biases only", "last 2", "full"), []
    candidates = [PlannedRow(name, UpdateScheme()) for name in names]
    for limit, expected in ((None, "full"), (25, "last 2"), (15, "biases only"), (5, "full")):
        rows = [
            Compared(name, "", (), bytes_, 0, 0, 0, limit)
            for name, bytes_ in zip(names, (10, 11, 20, 30), strict=True)
        ]
        (row,) = elastic_rows(candidates, rows, len(candidates), 0, Elastic(0.5))
        assert row.name == f"elastic 0.5 of {expected}", limit
    more = [*candidates, PlannedRow("a", UpdateScheme()), PlannedRow("b", UpdateScheme())]
    found = elastic_rows(more, [*rows, *rows[:2]], len(candidates), 2, Elastic(0.5, 7))
    assert [(r.name, r.way.elastic) for r in found] == [
        (f"elastic 0.5 of {name}", Elastic(0.5, 7)) for name in "ab"
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:of what was chosen in windows")
def test_an_elastic_row_learns_what_an_elastic_run_learns_and_is_kept_apart(
    model: Path, images: Path
) -> None:
    graph, whole = load(model), load_data(load(model), images)
    split = Split(whole.train.subset(60), whole.test.part(0, 8))
    settings = RunSettings(epochs=1, learning_rate=0.031)
    cache = Path(os.environ["MCUTRAIN_CACHE"])
    earlier = set(cache.glob("runs/*.npz"))
    scheme = parse_scheme("last:2")
    rows = (Elastic(0.95, 20), Elastic(0.95, 30), Elastic(0.92, 20))
    ways = {i: SchemeWay(elastic=elastic) for i, elastic in enumerate(rows, 1)}
    lesson = Lesson(model, (scheme,) * 4, StepOptions(), split, settings, ways=ways)
    found = train_all(lesson, [Trial(i, 0) for i in range(4)], 1)
    assert found[0].saved == train(prepare(graph, scheme), split, settings).saved
    assert not found[0].decisions
    step = prepare(graph, scheme, elastic=True)
    for result, row in zip(found[1:], rows, strict=True):
        expected = train(step, split, row.of(settings))
        assert (result.saved, result.decisions) == (expected.saved, expected.decisions)
        assert len(result.decisions) == 60 // row.every
    assert len(set(cache.glob("runs/*.npz")) - earlier) == 4
    pico = load_target("rpi-pico").isa  # its time is another
    train_all(replace(lesson, isa=pico), [Trial(1, 0)], 1)
    assert len(set(cache.glob("runs/*.npz")) - earlier) == 5


@pytest.mark.slow
def test_a_profile_shares_out_an_elastic_rows_time(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `simulate` takes it; of another step it is a sentence."""
    monkeypatch.setattr("mcutrain.functions.comparing.usual", lambda *_: [])
    assert run("profile", model, "--scheme", "last:2", "-o", "profile.json").code == 0
    facts = json.loads(Path("profile.json").read_text())
    for node in facts["nodes"]:
        node["counted"] = 0 if node["of"] != "forward" else node["estimated"]
    Path("free.json").write_text(json.dumps(facts))
    few = ("--samples", 60, "--test-samples", 8, "--epochs", 1, "--lr", "0.03")
    flags = ("--data", images, *few, "--scheme", "last:2", "--elastic", "0.9", "--every", 40)

    def learnt(*more: object) -> tuple[float, str]:
        """Its accuracy, and what it chose, in the run's checkpoint."""
        found = run("compare", model, *flags, *more, "--seeds", 1, "--jobs", 1, "--json").json
        newest = max(Path(os.environ["MCUTRAIN_CACHE"]).glob("runs/*.npz"), key=_modified)
        with np.load(newest) as file:
            return found["rows"][1]["accuracy"], json.loads(str(file["counts"]))["decisions"]

    def simulated(*more: object) -> tuple[float, str]:
        found = run("simulate", model, *flags, *more, "--checkpoint", "run.npz", "--json").json
        with np.load("run.npz") as file:
            Path("run.npz").unlink()
            return found["accuracy"], json.loads(str(file["counts"]))["decisions"]

    free = ("--profile", "free.json")
    assert learnt(*free) == simulated(*free) != learnt() == simulated()
    other = run("compare", model, *flags, "--scheme", "last:3", *free).sentence
    assert other.startswith("elastic 0.9 of last:3: free.json is a profile of another step")
    alone = run("compare", model, "--data", images, *few, *free).sentence
    assert "--profile is of a run with --elastic SHARE" in alone


def _modified(path: Path) -> int:
    return path.stat().st_mtime_ns


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--elastic", "0.05"), "elastic 0.05 of full: a step cannot take a share of 0.05"),
        (("--elastic", "nan"), "elastic nan of full: elastic = nan: give a share of a step"),
        (("--elastic", "0.8", "--sram", "20K"), "elastic 0.8 of head only: the scheme trains"),
        (("--every", "20"), "--every is of a run with --elastic SHARE"),
        (("--elastic", "0.8", "--every", "2"), "selected every 2 steps: give a number, 3 or more"),
    ],
)
def test_a_share_that_cannot_be_is_said_before_training(
    run: Run,
    model: Path,
    images: Path,
    flags: tuple[object, ...],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def usual_ones(*_: object) -> list[PlannedRow]:
        return [PlannedRow("head only", UpdateScheme()), PlannedRow("full", parse_scheme("last:2"))]

    monkeypatch.setattr("mcutrain.functions.comparing.usual", usual_ones)
    monkeypatch.setattr("mcutrain.functions.comparing.train_all", None)
    assert says in run("compare", model, "--data", images, *FEW, *flags).sentence


@pytest.mark.slow
def test_elastic_rows_stand_in_the_answer_and_in_the_report(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    head = [PlannedRow("head only", UpdateScheme())]
    monkeypatch.setattr("mcutrain.functions.comparing.usual", lambda *_: list(head))
    given = ("--elastic", 0.9, "--every", 10, "--scheme", "last:2", "--seeds", 1, *FEW)
    data = ("--data", images, "--jobs", 1)
    printed = run("compare", model, *data, *given, "--json", "-o", "c").json
    assert [row["name"] for row in printed["rows"]][1:] == ["last:2", "elastic 0.9 of last:2"]
    assert (printed["settings"]["elastic"], printed["settings"]["every"]) == (0.9, 10)
    report = from_json(Report, (tmp_path / "c/report.json").read_text(), "report.json")
    assert report.comparison[-1].name == "elastic 0.9 of last:2"
