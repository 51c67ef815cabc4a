"""Every command does what its help says."""

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain import demo
from mcutrain.demo import board as demo_board
from mcutrain.errors import BuildError
from mcutrain.experiments import results as compared
from mcutrain.experiments.parallel import Trial
from mcutrain.functions.board_lessons import BoardCourse
from mcutrain.functions.listener import SILENT
from mcutrain.oracle.tflite import find_interpreter
from mcutrain.pipeline import prepare
from mcutrain.simulation import Search
from mcutrain.sparse import UpdateScheme
from tests.cli.conftest import Run

COMMANDS = (
    *("info", "verify", "simulate", "plan", "generate", "build", "flash", "train", "monitor"),
    *("ports", "demo", "doctor", "analyze", "select", "compare", "report", "profile"),
)
SPARSE = "10:0.5,22:0.5,bias:4"
FORGETS = (
    *("--scheme", "bias:2", "--samples", 200, "--test-samples", 10),
    *("--epochs", 1, "--schedule", "constant"),
)
FEW = ("--scheme", "head", "--samples", 48, "--test-samples", 60, "--epochs", 1, "--lr", "0.03")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(run: Run, command: str) -> None:
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert f"Example: mcutrain {command}" in outcome.out


def test_version_is_the_version_of_the_package(run: Run) -> None:
    assert run("--version").out == f"mcutrain {mcutrain.__version__}\n"


def test_info_counts_layers_as_schemes_do(run: Run, model: Path) -> None:
    facts = run("info", model, "--json").json
    trainable = [layer for layer in facts["layers"] if layer["index"] is not None]
    assert [layer["index"] for layer in trainable] == list(range(25))
    assert (trainable[10]["name"], trainable[10]["weights"]) == ("block4/expand", 32 * 96)
    assert facts["head"] == "head/conv"
    assert facts["inputs"][0]["shape"] == [1, 28, 28, 1]
    assert facts["macs"] == sum(layer["macs"] for layer in facts["layers"])


def test_info_prints_a_line_per_node(run: Run, model: Path) -> None:
    text = run("info", model).out
    assert re.search(r"^ 10 +block4/expand +Conv2D .* 3,072 ", text, re.MULTILINE)
    assert re.search(r"^ head +head/conv ", text, re.MULTILINE)
    assert "input   1×28×28×1 int8" in text


def test_dump_shows_gradients_only_with_a_scheme(run: Run, model: Path) -> None:
    forward, training = (
        run("info", model, "--dump"),
        run("info", model, "--dump", "--scheme", "head"),
    )
    assert "SoftmaxCrossEntropy" not in forward.out
    assert "SoftmaxCrossEntropy" in training.out
    assert forward.out.startswith("graph fashion")


def test_plan_adds_up(run: Run, model: Path) -> None:
    facts = run("plan", model, "--scheme", SPARSE, "--json").json
    assert facts["sram_bytes"] == facts["arena_bytes"] + facts["state_bytes"]
    assert sum(facts["state"].values()) == facts["state_bytes"]
    assert facts["state"]["weights"] == 96 * 16 + 192 * 32 + 10 * 64
    assert facts["arena_bytes"] >= facts["arena_lower_bound_bytes"]
    assert facts["arena_is_smallest"] is (facts["arena_bytes"] == facts["arena_lower_bound_bytes"])
    assert sum(b["bytes"] for b in facts["at_peak"]) <= facts["arena_lower_bound_bytes"]


def test_plan_writes_every_buffer_as_csv(run: Run, model: Path, tmp_path: Path) -> None:
    outcome = run("plan", model, "--csv", "plan.csv", "--picture")
    rows = list(csv.DictReader((tmp_path / "plan.csv").read_text().splitlines()))
    arena = max(int(row["offset"]) + int(row["size"]) for row in rows)
    assert re.search(rf"^  arena +{arena:,} B ", outcome.out, re.MULTILINE)
    assert "lower bound" in outcome.out.splitlines()[-1]


def test_residual_bits_and_gradient_width_change_the_plan(run: Run, model: Path) -> None:
    def planned(*flags: object) -> dict[str, int]:
        facts = run("plan", model, "--scheme", SPARSE, "--json", *flags).json
        return {**facts["state"], "arena": facts["arena_bytes"]}

    usual = planned()
    assert planned("--residual-bits", 8)["residual_bits"] > usual["residual_bits"]
    none = planned("--residual-bits", 0, "--head-residual-bits", 0)
    assert (none["residual_bits"], none["weights"]) == (0, usual["weights"])
    assert planned("--accumulate", 4)["gradient_sums"] > 0 == usual["gradient_sums"]
    head_bias = 4 * 10
    whole = planned("--bias-bits", 32)["biases"] - head_bias
    assert 2 * (usual["biases"] - head_bias) == whole
    assert planned("--gradient-bits", 16)["arena"] >= usual["arena"]


def test_biases_that_stand_at_an_end_of_16_bits_are_said(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take a long run at an absurd rate, so the end is brought nearer."""
    few = ("--data", images, "--samples", 20, "--test-samples", 2, "--epochs", 2)
    flags = (*few, "--lr", 0.1, "--scheme", "bias:3", "--bias-bits", 16)
    usual = run("simulate", model, *flags, "--json").json
    assert (usual["saturated_biases"], usual["warning"]) == (0, None)
    monkeypatch.setattr("mcutrain_host.saved.INT16_END", 100)
    found = run("simulate", model, *flags, "--json").json
    assert found["saturated_biases"] > 1
    assert found["warning"].startswith(
        f"{found['saturated_biases']} trained biases stand at the end of 16 bits"
    )
    assert f"mcutrain: {found['warning']}" in run("simulate", model, *flags).err.splitlines()


def test_compare_and_train_find_biases_at_an_end_of_16_bits(model: Path) -> None:
    step = prepare(model, UpdateScheme("halves", 3, bias_bits=16))
    reference = step.reference()
    name = next(name for name in reference.state if name.endswith(".difference"))
    reference.state[name][:3] = (2**15 - 1, -(2**15), 2**15 - 2)
    project: Any = SimpleNamespace(manifest=SimpleNamespace(table=step.plan.state.table))
    course: Any = None
    board = BoardCourse(project, course, tests=0, after=0, sends_latents=False, listener=SILENT)
    outcome: Any = SimpleNamespace(interrupted=False, steps=0)
    said = board.doubts(outcome, 0.0, reference.save())
    assert said.startswith("2 trained biases stand at the end of 16 bits")
    rows: Any = [SimpleNamespace(name="whole"), SimpleNamespace(name="halves")]
    counts = {Trial(0, 0): 0, Trial(1, 0): 1, Trial(1, 1): 2}
    results: Any = {t: SimpleNamespace(saturated_biases=n) for t, n in counts.items()}
    (sentence,) = compared._saturations(rows, results)
    assert sentence.startswith("halves: 2 trained biases stand at the end of 16 bits")


def test_a_budget_that_suffices_is_silent(run: Run, model: Path) -> None:
    assert run("plan", model, "--sram", "26K").code == 0


def test_generate_writes_what_it_lists_and_replaces_it(
    run: Run, model: Path, tmp_path: Path
) -> None:
    sizes = run("generate", model, "-o", "c", "--json").json["files"]
    found = {
        str(p.relative_to(tmp_path / "c")): p.stat().st_size
        for p in (tmp_path / "c").rglob("*")
        if p.is_file()
    }
    assert found == sizes
    again = run("generate", model, "-o", "c", "--scheme", SPARSE)
    assert again.code == 0
    assert json.loads((tmp_path / "c/manifest.json").read_text())["scheme"] == SPARSE
    assert "make -C c" in again.out
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_simulate_trains(run: Run, model: Path, images: Path) -> None:
    facts = run("simulate", model, "--data", images, *FEW, "--json").json
    assert facts["settings"]["learning_rate"] == 0.03
    assert (facts["training_samples"], facts["test_samples"], facts["steps"]) == (48, 60, 48)
    assert facts["classes"] == 10
    assert facts["class_names"][9] == "Ankle boot"
    assert len(facts["epochs"]) == 1
    assert facts["accuracy"] == facts["epochs"][-1]["test_accuracy"]


def test_simulate_prints_accuracy_memory_and_time(run: Run, model: Path, images: Path) -> None:
    outcome = run("simulate", model, "--data", images, *FEW)
    assert re.search(r"^test accuracy +[\d.]+ % before, [\d.]+ % after$", outcome.out, re.MULTILINE)
    assert re.search(r"^SRAM +8,096 bytes: arena 7,076, trainable state 1,020$", outcome.out, re.M)
    assert re.search(r"^time per step +[\d,]+ µs", outcome.out, re.MULTILINE)
    assert "epoch 1/1: loss" in outcome.err


@pytest.mark.slow
def test_data_with_other_classes_gets_a_new_head(run: Run, model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (40, 28, 28), np.uint8)
    np.savez(tmp_path / "three.npz", x=x, y=np.arange(40) % 3)
    few = ("--samples", 4, "--test-samples", 4, "--epochs", 1, "--reference")
    flags = ("simulate", model, "--data", "three.npz", "--scheme", "head", *few, "--json")
    assert run(*flags).json["classes"] == 3
    assert run(*flags, "--classes", 5).json["classes"] == 5
    assert run(*flags, "--classes", "keep").json["classes"] == 10


@pytest.mark.slow
def test_numpy_portable_c_and_host_c_save_the_same_bytes(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    flags = ("simulate", model, "--data", images, "--scheme", SPARSE, "--flip", "--crop", 1)
    few = ("--samples", 6, "--test-samples", 4, "--epochs", 2, "--lr", "0.03", "--accumulate", 3)
    states = []
    for way in (["--reference"], ["--portable"], []):
        assert run(*flags, *few, *way, "--save-state", "state").code == 0
        states.append((tmp_path / "state").read_bytes())
    assert states[0] == states[1] == states[2]


@pytest.mark.slow
def test_a_run_from_a_latent_saves_the_same_bytes_and_says_where_it_begins(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    listed = run("plan", model, "--scheme", SPARSE, "--json").json["latents"]
    name = listed[-1]["tensor"]
    few = ("--samples", 4, "--test-samples", 4, "--epochs", 2, "--lr", "0.03")
    flags = ("simulate", model, "--data", images, "--scheme", SPARSE, *few, "--json")
    ways = (["off"], ["auto"], [name], [name, "--reference"])
    found = [run(*flags, "--latent", *way).json for way in ways]
    assert len({values["state_sha256"] for values in found}) == 1
    begins = [values["latent"] for values in found]
    assert begins[0] is None
    assert begins[1] in [latent["tensor"] for latent in listed]
    assert begins[2] == begins[3] == name
    said = run(*flags[:-1], "--latent", name).out
    assert f"without the frozen layers up to {name}, which ran beforehand, once for each" in said


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--latent", "nothing"], "a training step cannot begin with 'nothing': give one of "),
        (["--latent", "nothing", "--reference"], "cannot begin with 'nothing': give one of "),
        (["--latent", "block3/depthwise", "--flip"], "where every epoch varies the samples"),
    ],
)
def test_a_latent_that_cannot_be_is_a_sentence(
    run: Run, model: Path, images: Path, flags: list[str], sentence: str
) -> None:
    few = ("--samples", 4, "--test-samples", 4, "--epochs", 1, "--lr", "0.03")
    outcome = run("simulate", model, "--data", images, "--scheme", SPARSE, *few, *flags)
    assert outcome.code == 2
    assert sentence in outcome.err


def test_a_seed_decides_the_state(run: Run, model: Path, images: Path) -> None:
    def state(seed: int) -> str:
        flags = ("--data", images, *FEW, "--seed", seed, "--json")
        return str(run("simulate", model, *flags).json["state_sha256"])

    assert state(1) == state(1) != state(2)


@pytest.mark.oracle
@pytest.mark.skipif(find_interpreter() is None, reason="no TFLite interpreter is installed")
def test_verify_finds_no_difference_and_says_what_it_compared(run: Run, model: Path) -> None:
    verdict = run("verify", model, "--samples", 6, "--reference-samples", 2, "--json").json
    assert verdict["is_right"]
    assert [(c["of"], c["samples"], c["differing"]) for c in verdict["comparisons"]] == [
        ("numpy reference", 2, 0),
        ("host C", 6, 0),
        ("portable C", 6, 0),
    ]


@pytest.mark.oracle
@pytest.mark.skipif(find_interpreter() is None, reason="no TFLite interpreter is installed")
def test_verify_fails_where_an_output_differs(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcutrain.oracle import forward as oracle

    right = oracle.tflite_outputs

    def wrong(*arguments: object) -> object:
        y = right(*arguments)
        y[3, 7] ^= 1
        return y

    monkeypatch.setattr(oracle, "tflite_outputs", wrong)
    outcome = run("verify", model, "--samples", 4, "--reference-samples", 0)
    assert outcome.code == 1
    assert "OUTPUTS DIFFER" in outcome.out


def test_doctor_finds_what_this_test_runs_with(run: Run) -> None:
    report = run("doctor", "--json").json
    assert report["is_well"]
    found = {finding["what"]: finding["found"] for finding in report["findings"]}
    assert found["numpy"] == np.__version__


def test_doctor_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    outcome = run("doctor")
    assert outcome.code == 1
    assert re.search(r"C compiler .*no-such-compiler", outcome.out)
    assert "apt-get install gcc" in outcome.out


@pytest.mark.slow
def test_the_demo_runs_and_both_computations_agree(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "QUICK", demo.Size(32, 20, 1, 1))  # what it learns is tested below
    monkeypatch.setattr(demo_board, "QUICK", demo_board.BoardSize(6, 2, 2, 3))
    outcome = run("demo", "--quick", "--output", "c")
    assert outcome.code == 0, outcome.err
    for scheme in ("head", "fashion-sparse"):
        assert re.search(rf"^ {scheme} +[\d.]+ % +[\d.]+ % ", outcome.out, re.MULTILINE)
        assert (tmp_path / "c" / scheme / "src" / "mct_model.c").is_file()
    assert "bytes of saved state equal the C's" in outcome.out
    assert "read back over serial, equals the simulation's: all 26,260 bytes" in outcome.out
    assert (tmp_path / "c" / "nucleo-f446re" / "build" / "firmware.elf").is_file()
    assert f"to open in a browser: {Path('c/report.html')}" in outcome.out
    assert (tmp_path / "c" / "report.html").is_file()


@pytest.mark.slow
def test_the_demo_as_json_learns_something(run: Run) -> None:
    facts = run("demo", "--quick", "--json").json
    head, sparse = facts["runs"]
    assert facts["same_bits"]
    assert facts["upright_accuracy"] > 0.8
    assert sparse["accuracy"] > head["accuracy"] > head["accuracy_before"]
    assert sparse["state_bytes"] > head["state_bytes"]
    board = facts["board"]
    assert board["same_bits"]
    assert board["planned_bytes"] == board["linked_bytes"] <= board["chip_bytes"]
    assert 0 < board["stack_used_bytes"] < board["stack_bytes"]
    assert board["went_on_from"] < board["power_cut_after"] < board["steps"]


def test_generate_takes_names_for_a_program_with_more_models(
    run: Run, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "names.txt").write_text("\n".join("abcdefghij"))
    outcome = run("generate", model, "-o", "c", "--prefix", "wake", "--class-names", "names.txt")
    assert outcome.code == 0, outcome.err
    assert "c/src/wake_model.h. To build libwake.a:" in " ".join(outcome.out.split())
    header = (tmp_path / "c/src/wake_model.h").read_text()
    assert "extern const char *const wake_class_names[WAKE_CLASSES];" in header
    manifest = json.loads((tmp_path / "c/manifest.json").read_text())
    assert manifest["class_names"] == list("abcdefghij")
    assert manifest["prefix"] == "wake"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--prefix", "Wake"), "the prefix 'Wake' cannot begin C names"),
        (("--prefix", "wake", "--board", "native"), "leave out the prefix"),
        (("--class-names", "a,b"), "2 class names but the model has 10"),
        (("--class-names", "no/such"), "is no file"),
        (("--mean", "0,0,0", "--std", "1,1,1"), "3 means but the model takes 1 channels"),
    ],
)
def test_generate_refuses_names_that_do_not_fit(
    run: Run, model: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert says in run("generate", model, "-o", "c", *arguments).sentence
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_simulate_names_a_smaller_rate_where_much_was_forgotten(
    run: Run, model: Path, images: Path
) -> None:
    flags = ("--data", images, *FORGETS)
    absurd = run("simulate", model, *flags, "--lr", 1000)
    says = r"mcutrain: the learning rate 1000 is too large: the test accuracy fell from "
    assert re.search(
        says + r"[\d.]+ to [\d.]+ %; short trials find --lr [\d.e-]+$", absurd.err, re.MULTILINE
    )
    warning = run("simulate", model, *flags, "--lr", 1000, "--json").json["warning"]
    assert f"mcutrain: {warning}" in absurd.err.splitlines()
    assert run("simulate", model, *flags, "--lr", 0.01, "--json").json["warning"] is None


def test_a_rate_that_changes_next_to_nothing_is_said_with_it(
    run: Run, model: Path, images: Path
) -> None:
    few = ("--samples", 20, "--test-samples", 2, "--epochs", 1)
    flags = ("--data", images, "--scheme", "head", *few)
    lines = run("simulate", model, *flags).err.splitlines()  # the model was trained on these images
    found = next(i for i, line in enumerate(lines) if line.startswith("learning rate found on "))
    assert lines[found + 1].startswith("mcutrain: note: trials with this learning rate, the sm")
    assert "too few to learn from" in lines[found + 1]


def test_a_result_is_shown_where_its_rate_cannot_be_compared(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def simulate(error: type[BaseException]) -> Any:
        def fails(*_: object) -> float:
            raise error

        monkeypatch.setattr(Search, "found", fails)
        flags = ("--data", images, *FORGETS, "--lr", 1000, "--json")
        return run("simulate", model, *flags).json

    refused, interrupted = simulate(BuildError), simulate(KeyboardInterrupt)
    assert refused["warning"].startswith("the learning rate 1000 may be too large: the ")
    assert interrupted["warning"] is None
    assert refused["state_sha256"] == interrupted["state_sha256"]
