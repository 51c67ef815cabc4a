"""`mcutrain select`: what it prints and writes, and the sentences for bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import mcutrain
from mcutrain import demo, prepare
from mcutrain.cli.commands import app
from mcutrain.cli.select import budgets_of
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.ladder import front_flash_bytes
from mcutrain.errors import AnalysisError, McutrainError, OptionError, PlanError, TargetError
from mcutrain.functions import selecting
from mcutrain.functions.run_options import seconds
from mcutrain.proxies import kept_ladder, write_ladder
from mcutrain.selection.contribution import Contributions
from mcutrain.selection.kernels import Kernels
from mcutrain.sparse import find_head, layers_of, parse_scheme
from mcutrain.target import load_target
from tests.proxies import ladders
from tests.selection.networks import contributions

MODEL = str(demo.MODEL)
NO_BUILD = "--no-build"


@pytest.fixture(scope="module")
def found() -> Contributions:
    made = contributions(demo.network(), np.random.default_rng(7), (1.0,))
    weights = {i: g for i, g in made.gain().weights.items() if i % 4 == 0}  # soon costed
    gains = replace(made.gain(), weights={i: weights.get(i, {1.0: -1.0}) for i in range(25)})
    return replace(made, classes=10, method="training", gains={"accuracy": gains})


@pytest.fixture(scope="module")
def analysis(found, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("analysis") / "analysis.json"
    path.write_text(found.to_json(), encoding="utf-8")
    return str(path)


def run(*arguments: str):
    return CliRunner().invoke(app, ["select", MODEL, *arguments])


def answer(*arguments: str) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.mark.slow
def test_the_scheme_is_printed_with_its_proof_and_written(analysis, tmp_path):
    result = run("--analysis", analysis, "--board", "nucleo-f446re", NO_BUILD, "-o", str(tmp_path))
    assert result.exit_code == 0, (result.output, result.exception)
    for words in ("the head, the last", "proved", "SRAM of 131,072", "estimated", "more is kept"):
        assert words in result.stdout
    values = json.loads((tmp_path / "selection.json").read_text())
    scheme = parse_scheme(str(tmp_path / "scheme.toml"))
    assert scheme.to_toml() == values["scheme"]
    assert scheme.bias_depth == values["bias_depth"]
    assert values["board"] == "nucleo-f446re"
    assert values["sram_bytes"] + values["free"]["sram_bytes"] == 131_072
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


BOARD = ("--board", "nucleo-f446re", "--sram", "40K", NO_BUILD)


@pytest.fixture(scope="module")
def ladder(analysis, tmp_path_factory) -> Path:
    """Of the scheme that is selected for this board; the first level is the larger one."""
    folder = tmp_path_factory.mktemp("ladder")
    (folder / "scheme.toml").write_text(answer("--analysis", analysis, *BOARD)["scheme"])
    whole, _ = ladders.front_of(prepare(demo.network(), str(folder / "scheme.toml")))
    facts = {"scheme": "selected", "levels": [{"level": level} for level in range(3)]}
    write_ladder(ladders.ladder(whole), folder / "ladder", whole, facts)
    return folder / "ladder"


@pytest.mark.slow
def test_as_many_levels_are_kept_as_fit_those_that_save_most_first(analysis, ladder, tmp_path):
    flags = ("--analysis", analysis, *BOARD, "--proxies", str(ladder))
    every = answer(*flags)
    assert (every["ladder"]["kept"], every["ladder"]["left_out"]) == ([0, 1, 2], [])
    scheme = str(ladder.parent / "scheme.toml")
    plan = prepare(demo.network(), scheme, ladder=kept_ladder(ladder)).plan
    code = code_sizes(load_target("nucleo-f446re").isa)
    needs = [every["flash_bytes"] + sum(front_flash_bytes(plan, code))]
    assert every["ladder"]["flash_bytes"] == needs[0]
    target = load_target("nucleo-f446re")
    sram = target.sram_bytes(plan.arena_bytes, plan.resident_bytes)
    assert every["ladder"]["sram_bytes"] == sram
    out = tmp_path / "out"
    less = answer(*flags, "--flash", str(needs[0] - 1), "-o", str(out))
    assert (less["ladder"]["kept"], less["ladder"]["left_out"]) == ([0, 2], [1])
    assert less["ladder"]["flash_bytes"] < needs[0]
    assert json.loads((out / "selection.json").read_text())["ladder"] == less["ladder"]
    own = json.loads((out / "ladder/ladder.json").read_text())
    assert (own["proxies"], own["levels"]) == (1, [{"level": 0}, {"level": 2}])
    kept = prepare(demo.network(), scheme, ladder=kept_ladder(out / "ladder")).plan
    found = every["flash_bytes"] + sum(front_flash_bytes(kept, code))
    assert less["ladder"]["flash_bytes"] == found
    said = " ".join(run(*flags, "--flash", str(needs[0] - 1)).stdout.split())
    assert f"levels 0, 2 of the cascade fit, with {less['ladder']['sram_bytes']:,} bytes of" in said
    assert f"and {found:,} of flash; 1 does not" in said
    none = run(*flags, "--flash", str(every["flash_bytes"] + 1), "-o", str(out)).stdout
    assert "no level of the cascade but the whole front fits" in none
    assert not (out / "ladder").exists()


def test_a_ladder_that_goes_with_no_selection_is_a_sentence(analysis, ladder, tmp_path):
    """It is made for a scheme, so that is written all the same."""
    flags = ("--analysis", analysis, "--proxies", str(ladder))
    other = run(*flags, "--board", "nucleo-f446re", NO_BUILD, "-o", str(tmp_path))
    assert isinstance(other.exception, PlanError)
    assert "the cascade" in str(other.exception)
    assert (tmp_path / "scheme.toml").is_file()
    assert not (tmp_path / "ladder").exists()
    out = tmp_path / "out"
    nowhere = run("--analysis", analysis, *BOARD, "--proxies", "nowhere", "-o", str(out))
    assert "`mcutrain proxies` makes such a folder" in str(nowhere.exception)
    own = run(*flags, *BOARD, "-o", str(ladder.parent))
    assert "is the cascade that levels are taken from" in str(own.exception)
    (out / "ladder").mkdir(parents=True)
    (out / "ladder" / "notes.txt").write_text("mine")
    foreign = run(*flags, *BOARD, "-o", str(out))
    assert "exists and holds no cascade of fronts" in str(foreign.exception)
    assert [path.name for path in out.iterdir()] == ["ladder"]
    sweep = run(*flags, "--sweep", "40K:64K")
    assert "it does not go with --sweep" in sweep.output


@pytest.fixture
def joint(found, tmp_path) -> str:
    """An analysis by gradient; nothing but `joint` was measured."""
    rng = np.random.default_rng(3)

    def products(size: float) -> np.ndarray:
        g = size * rng.normal(size=(8, 3))
        return (g @ g.T).astype(np.float32)

    gains = found.gain()
    weights = {i: {1.0: products(2.0)} for i, by in gains.weights.items() if by[1.0] > 0}
    alone = replace(gains, weights={i: {1.0: 1.0} for i in weights})
    kernels = Kernels(0.01, 0.015, 100, tuple(products(0.3) for _ in range(25)), weights)
    path = tmp_path / "analysis.json"
    path.write_text(replace(found, gains={"joint": alone}, kernels=kernels).to_json())
    return str(path)


@pytest.mark.slow
def test_what_is_learnt_together_is_printed_with_its_proof(joint):
    result = run("--analysis", joint, "--board", "nucleo-f446re", "--sram", "46K", NO_BUILD)
    assert result.exit_code == 0, (result.output, result.exception)
    words = " ".join(result.stdout.split())
    assert "proved to be the largest possible by this analysis but for 0.004" in words
    assert "a gain is what is lost without it" in words


@pytest.mark.slow
def test_joint_is_asked_at_a_quarter_of_the_analysis_rate(joint):
    """At another share of it gains are others."""
    usual = answer("--analysis", joint, "--sram", "46K")
    gain = {share: answer("--analysis", joint, "--sram", "46K", "--joint-rate", share)["gain"]
            for share in ("1/4", "1")}  # fmt: skip
    assert usual["gain"] == gain["1/4"] != gain["1"]


def test_a_rate_of_joint_is_of_an_analysis_by_gradient(analysis):
    result = run("--analysis", analysis, "--sram", "46K", "--joint-rate", "0.5")
    assert result.exit_code == 2
    assert "needs the measure joint" in " ".join(result.output.split())
    none = run("--analysis", analysis, "--sram", "46K", "--joint-rate", "0")
    assert none.exit_code == 2
    assert "joint-rate" in none.output


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "flash_kib"), [((), 256), (("--slots", "off"), 512)])
def test_the_flash_of_the_slots_can_be_the_programs(analysis, flags, flash_kib):
    board = ("--board", "nucleo-f446re", NO_BUILD, "--sram", "40K")
    found = answer("--analysis", analysis, *board, *flags)
    assert found["limits"]["flash_bytes"] == flash_kib * 1024
    assert found["slots"] == ("off" if flags else "on")


@pytest.mark.slow
def test_of_an_elastic_selection_only_memory_is_limited_and_time_is_a_share(analysis):
    board = ("--analysis", analysis, "--board", "nucleo-f446re", NO_BUILD, "--sram", "48K")
    whole = answer(*board, "--elastic")
    assert whole["elastic_share"] is None
    limit = int(0.75 * whole["instructions"])
    found = answer(*board, "--elastic", "--instructions", str(limit))
    assert found["scheme"] == whole["scheme"]
    assert found["limits"]["instructions"] is None
    assert 0.748 < found["elastic_share"] <= limit / whole["instructions"]
    fixed = answer(*board, "--instructions", str(limit))
    assert fixed["instructions"] <= limit < found["instructions"]
    assert fixed["elastic_share"] is None
    said = run(*board, "--elastic", "--instructions", str(limit)).stdout
    assert f"{found['elastic_share']:g}" in said
    plenty = answer(*board, "--elastic", "--instructions", str(2 * whole["instructions"]))
    assert plenty["elastic_share"] == 1


def test_the_plan_of_an_elastic_selection_is_that_of_elastic_firmware(analysis, tmp_path):
    flags = ("--analysis", analysis, "--board", "nucleo-f446re", NO_BUILD, "--elastic")
    values = answer(*flags, "-o", str(tmp_path))
    step = prepare(demo.network(), str(tmp_path / "scheme.toml"), elastic=True)
    assert step.plan.training.elastic
    assert step.plan.state_bytes == values["state_bytes"]
    assert step.plan.arena_bytes == values["arena_bytes"]
    report = json.loads((tmp_path / "report.json").read_text())
    used = sum(part["size_bytes"] for part in report["usage"]["sram"])
    assert used == values["sram_bytes"]


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--instructions", "1000000"), 2, "its mean cannot be kept to 1,000,000"),
        (("--sweep", "32K:64K"), 2, "it does not go with --sweep"),
        (("--finalists", "2", "--data", "x.npz"), 2, "it does not go with --finalists"),
    ],
)
def test_what_an_elastic_selection_cannot_be_is_a_sentence(analysis, flags, code, says):
    result = run("--analysis", analysis, "--board", "nucleo-f446re", NO_BUILD, "--elastic", *flags)
    text = " ".join((result.output + str(result.exception)).split())
    assert says in text
    assert result.exit_code == code or isinstance(result.exception, PlanError)


@pytest.mark.slow
def test_biases_of_any_bits_gain_no_less(analysis):
    flags = ("--analysis", analysis, "--sram", "40K")
    whole, half, any_bits = (answer(*flags, "--bias-bits", b) for b in ("32", "16", "any"))
    assert answer(*flags)["scheme"] == half["scheme"]
    assert (whole["bias_bits"], half["bias_bits"]) == (32, 16)
    assert any_bits["gain"] == max(whole["gain"], half["gain"])
    assert "and 32 of each bias; the biases gain" in run(*flags, "--bias-bits", "32").stdout


@pytest.mark.slow
def test_layers_with_bits_of_their_own_gain_no_less(found, tmp_path):
    path = tmp_path / "analysis.json"
    path.write_text(replace(found, residual_factor={0: 0.8, 4: 1.0}).to_json())
    flags = ("--analysis", str(path), "--sram", "40K")
    one, own = answer(*flags), answer(*flags, "--layer-bits")
    assert own["gain"] > one["gain"]
    assert {layer["residual_bits"] for layer in own["layers"]} == {0, 4}
    assert "residual_bits = " in own["scheme"].partition("[weights]")[2]
    assert "residual bits" in run(*flags, "--layer-bits").stdout
    assert one["next"]["changes"]


def test_without_a_board_sram_is_arena_and_state(analysis):
    values = answer("--analysis", analysis, "--sram", "40K")
    assert values["sram_bytes"] == values["arena_bytes"] + values["state_bytes"] <= 40 * 1024
    assert values["flash_bytes"] == 0
    assert values["optimal"] is True


def test_a_share_can_be_of_the_channels_with_the_largest_gradient(found, tmp_path):
    weights = {16: {0.25: 0.1}, 20: {0.5: 0.2}}
    gains = replace(found.gain(), weights=weights)
    path = tmp_path / "analysis.json"
    layers = layers_of(demo.network(), find_head(demo.network()))
    channels = {
        i: tuple(map(float, range(demo.network().tensors[layers[i].weight].type.shape[-1])))
        for i in weights
    }
    analysis = replace(found, gains={"accuracy": gains}, channels=channels)
    path.write_text(analysis.to_json())
    flags = ("--analysis", str(path), "--sram", "60K", "--channels", "gradient")
    assert run(*flags, "-o", str(tmp_path)).exit_code == 0
    scheme = parse_scheme(str(tmp_path / "scheme.toml"))
    assert set(scheme.importance) == set(scheme.weights) == {"16", "20"}
    assert prepare(demo.network(), scheme).plan.sram_bytes <= 60 * 1024


def test_step_time_becomes_instructions_of_the_board(analysis):
    values = answer(
        "--analysis", analysis, "--board", "stm32f746g-disco", NO_BUILD, "--step-time", "60ms"
    )
    limit = values["limits"]["instructions"]
    assert limit == int(0.06 * 216e6 / 1.1)
    assert values["instructions"] <= limit


def test_a_sweep_marks_what_is_worth_its_bytes_and_writes_every_scheme(analysis, tmp_path):
    folder = tmp_path / "new" / "sweep"
    values = answer("--analysis", analysis, "--sweep", "7K:47K:10K", "-o", str(folder))
    points = values["points"]
    assert [p["budget_bytes"] for p in points] == [k * 1024 for k in range(7, 48, 10)]
    assert "reason" in points[0]
    gains = [p["gain"] for p in points[1:]]
    assert gains == sorted(gains)
    assert [p["is_pareto"] for p in points[1:]] == [
        gain > max(gains[:i], default=float("-inf")) for i, gain in enumerate(gains)
    ]
    assert json.loads((folder / "sweep.json").read_text())["points"] == points
    assert {p.name for p in folder.glob("*.toml")} == {
        f"scheme-{p['budget_bytes']}.toml" for p in points[1:]
    }


@pytest.mark.slow
def test_python_selects_for_budgets_as_the_command_does(found, analysis, tmp_path):
    folder, budgets = tmp_path / "sweep", [7 * 1024, 27 * 1024, 37 * 1024]
    values = answer("--analysis", analysis, "--sweep", "7K:37K:20K")
    sweep = mcutrain.select_for_budgets(demo.MODEL, found, budgets, output=folder)
    assert [p["budget_bytes"] for p in values["points"]] == budgets
    assert sweep.to_dict() == values
    assert json.loads((folder / "sweep.json").read_text())["points"] == values["points"]
    assert sweep.records()[0]["gain"] is None
    assert repr(sweep).startswith("<BudgetSweep: fashion")
    for option in ({"sram": 5}, {"elastic": True}):
        with pytest.raises(OptionError, match=next(iter(option))):
            mcutrain.select_for_budgets(demo.MODEL, found, budgets, **option)
    with pytest.raises(PlanError, match="no budget"):
        mcutrain.select_for_budgets(demo.MODEL, found, [])


@pytest.mark.slow
def test_pareto_schemes_of_a_sweep_are_trained(analysis, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (60, 28, 28, 1), np.uint8), np.arange(60) % 10
    data = tmp_path / "data.npz"
    np.savez(data, x=x, y=y)
    flags = ("--sweep", "30K:60K:30K", "--train", "--data", str(data), "--epochs", "1")
    points = answer("--analysis", analysis, *flags)["points"]
    assert points[0]["is_pareto"]
    assert all(0 <= p["trained_accuracy"] <= 1 for p in points if p["is_pareto"])


@pytest.mark.slow
def test_the_best_of_the_finalists_is_selected(found, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(240) % 10
    x = np.clip(rng.normal(100 + 10 * y[:, None, None, None], 30, (240, 28, 28, 1)), 0, 255)
    data, path, out = tmp_path / "data.npz", tmp_path / "analysis.json", tmp_path / "out"
    np.savez(data, x=x.astype(np.uint8), y=y)
    gains = found.gain()
    other = replace(gains, bias=tuple(0.01 * k for k in range(26)), weights={24: {1.0: 0.5}})
    path.write_text(replace(found, gains={"accuracy": gains, "probability": other}).to_json())
    flags = ("--analysis", str(path), "--sram", "60K", "--data", str(data), "--epochs", "1")
    by_training, selections = selecting.best_trained, []

    def kept(*arguments):
        selections.append(by_training(*arguments))
        return selections[-1]

    monkeypatch.setattr(selecting, "best_trained", kept)
    values = answer(*flags, "--finalists", "3", "-o", str(out))
    finalists = values["finalists"]
    assert 2 <= len(finalists) <= 3
    accuracies = [finalist["held_out_accuracy"] for finalist in finalists]
    assert accuracies == sorted(accuracies, reverse=True)
    assert values["scheme"] == finalists[0]["scheme"] == (out / "scheme.toml").read_text()
    assert json.loads((out / "selection.json").read_text())["finalists"] == finalists
    assert all(finalist["sram_bytes"] <= 60 * 1024 for finalist in finalists)
    assert selections[0].to_dict()["scheme"] == values["scheme"]
    assert f"best of {len(finalists)} by " in selections[0].summary()
    monkeypatch.setattr(selecting, "best_trained", lambda *_: selections[0])
    python = {"sram": 60 * 1024, "epochs": 1}
    again = mcutrain.select_by_training(demo.MODEL, path, data, 3, **python)
    assert again.records() == finalists
    printed = run(*flags, "--finalists", "3")
    assert printed.exit_code == 0, (printed.output, printed.exception)
    assert "the first is selected" in printed.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "classes", "augment"),
    [((), None, ()), (("--classes", "10", "--augment", "noise,flip"), 10, ("flip", "noise"))],
)
def test_finalists_have_the_head_and_the_augmentation_that_were_asked_for(
    analysis, tmp_path, monkeypatch, flags, classes, augment
):
    """The head also if it is a new one with as many classes as the model's own."""
    data = tmp_path / "data.npz"
    np.savez(data, x=np.zeros((240, 28, 28, 1), np.uint8), y=np.arange(240) % 10)
    lessons = []

    def trained(_, lesson, *__):
        lessons.append(lesson)
        raise AnalysisError("enough")

    monkeypatch.setattr(selecting.finalists, "trained", trained)
    found = ("--analysis", analysis, "--sram", "40K", "--finalists", "2", "--data", str(data))
    assert isinstance(run(*found, *flags).exception, AnalysisError)
    assert [lesson.options.classes for lesson in lessons] == [classes]
    assert [lesson.settings.augment for lesson in lessons] == [augment]


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        (("--sram", "1K"), PlanError, "the head alone needs .* bytes of SRAM, .* at step"),
        (("--sram", "40K", "--measure", "fisher"), AnalysisError, "has no 'fisher'"),
        (("--sram", "40K", "--classes", "7"), AnalysisError, "with 10 classes, not 7"),
        (("--sram", "40K", "--channels", "gradient"), AnalysisError, "has no channels"),
        (("--sweep", "1K:2K"), PlanError, "the head alone needs"),
        (("--sram", "40K", "--slots", "off"), TargetError, "only a board has slots to give up"),
    ],
)
def test_what_cannot_be_selected_is_a_sentence(analysis, flags, error, message):
    result = run("--analysis", analysis, *flags)
    assert isinstance(result.exception, error)
    assert isinstance(result.exception, McutrainError)
    assert __import__("re").search(message, str(result.exception))


def test_an_analysis_of_another_model_is_a_sentence(found, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(replace(found, model_digest="0" * 16).to_json())
    result = run("--analysis", str(path), "--sram", "40K")
    assert isinstance(result.exception, AnalysisError)
    assert "is an analysis of another model" in str(result.exception)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "is needed as a limit"),
        (("--sram", "40K", "--flash", "1M"), "--flash: needs a board"),
        (("--sram", "40K", "--step-time", "1s"), "--step-time: needs a board"),
        (("--board", "native", "--instructions", "5"), "instructions of native are not known"),
        (("--board", "rpi-pico", "--step-time", "fast"), "is no time such as"),
        (("--sweep", "64K"), "is no range such as"),
        (("--sweep", "64K:32K"), "is no range such as"),
        (("--sweep", "32K:64K", "--sram", "5K"), "a sweep has its own budgets"),
        (("--sram", "40K", "--train"), "it needs --sweep and --data"),
        (("--sram", "40K", "--finalists", "3"), "it needs --data, and no --sweep"),
    ],
)
def test_flags_that_do_not_fit_each_other_are_a_sentence(analysis, flags, words):
    result = run("--analysis", analysis, *flags)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())


def test_nothing_is_left_half_written(analysis, tmp_path):
    (tmp_path / "selection.json").mkdir()
    result = run("--analysis", analysis, "--sram", "40K", "-o", str(tmp_path))
    assert isinstance(result.exception, McutrainError)
    assert "cannot write" in str(result.exception)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_times_are_read():
    assert seconds("200ms") == pytest.approx(0.2)
    assert seconds("1.5s") == 1.5
    assert seconds("10us") == pytest.approx(1e-5)
    assert budgets_of("10:20:4") == [10, 14, 18, 20]
    assert Path(MODEL).is_file()
