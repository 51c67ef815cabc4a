"""--scheme auto, and the line after every simulation, as a user sees them."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from mcutrain.cli.automatic import Used
from mcutrain.demo import MODEL
from mcutrain.functions import chooser as choosers
from mcutrain.functions import memory_limit
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.pipeline import prepare
from tests.cli.conftest import Run
from tests.cli.small import write_small

FEW = ("--classes", "keep", "--samples", 60, "--test-samples", 20, "--epochs", 1, "--lr", 0.03)
BOARD = ("--board", "nucleo-f446re")
DATA = MODEL.parent / "fashion.npz"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Instead of the demo's 26 layers, whose schemes tests/functions and others choose."""
    return write_small(tmp_path_factory.mktemp("small"))


def used(out: str) -> str:
    (line,) = (line for line in out.splitlines() if line.startswith("used "))
    return line


@pytest.mark.slow
def test_a_board_makes_auto_the_default_and_says_what_was_chosen(run: Run, small: Path) -> None:
    command = ("simulate", small, "--data", DATA, *BOARD, *FEW)
    found = run(*command)
    assert found.code == 0, found.err
    facts = run(*command, "--json").json
    text = facts["scheme"]
    assert f"mcutrain: note: --scheme {text} is chosen: {facts['reason']}; " in found.err
    assert facts["reason"] == "by gradients it helps most of all that fits in nucleo-f446re"
    planned = run("plan", small, "--scheme", text, *BOARD, "--json").json
    memory = facts["memory"]
    assert memory["sram_bytes"] == planned["board"]["sram_bytes"] <= memory["limit_bytes"]
    assert (memory["board"], memory["limit_bytes"]) == ("nucleo-f446re", 131_072)
    begin = f"used            {memory['sram_bytes']:,} of 131,072 bytes of nucleo-f446re; the next"
    assert used(found.out).startswith(begin)
    explicit = run(*command, "--scheme", text, "--json").json
    assert explicit["state_sha256"] == facts["state_sha256"]
    assert explicit["reason"] is None


def test_the_command_for_the_next_scheme_runs_and_takes_what_was_said(
    run: Run, small: Path
) -> None:
    first = ("simulate", small, "--data", DATA, "--sram", "300K", *FEW, "--checkpoint", "run.npz")
    kept = ("--save-state", "state.mcts")
    facts = run(*first, *kept, "--scheme", "head", "--json").json
    larger = facts["memory"]["larger"]
    assert (larger["scheme"], larger["fits"]) == ("full", True)
    words = shlex.split(larger["command"])
    assert words[0] == "mcutrain"
    assert not {"--checkpoint", "--save-state", "state.mcts"} & set(words)  # it would replace them
    found = run(*words[1:]).json
    assert found["scheme"] == "full"
    assert found["memory"]["sram_bytes"] == larger["sram_bytes"]
    assert found["memory"]["larger"] is None


@pytest.mark.slow
def test_a_scheme_that_does_not_fit_is_told_the_way_to_one_that_does(run: Run, small: Path) -> None:
    size = prepare(small, "last:1").plan.sram_bytes
    command = ("simulate", small, "--data", DATA, "--sram", size - 3592, "--scheme", "last:1", *FEW)
    line = used(run(*command).out)
    assert line.startswith(
        f"used            {size:,} of {size - 3592:,} bytes, 3,592 too many; one that fits: "
    )
    words = shlex.split(line.partition("fits: ")[2])
    found = run(*words[1:], "--json").json
    assert found["memory"]["sram_bytes"] <= size - 3592


ASSUMED = "no board is named (--board, --sram)"


@pytest.mark.slow
def test_without_a_board_256_kb_are_assumed_and_it_is_said(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of this network fits, so less is assumed here."""
    assert memory_limit.USUAL_SRAM == 262_144
    monkeypatch.setattr(memory_limit, "USUAL_SRAM", 160 * 1024)
    command = ("simulate", small, "--data", DATA, *FEW)
    found = run(*command)
    facts = run(*command, "--json").json
    memory, text = facts["memory"], facts["scheme"]
    assert (memory["board"], memory["limit_bytes"], memory["is_assumed"]) == (None, 163_840, True)
    assert 131_072 < memory["sram_bytes"] <= 163_840
    assert f"{ASSUMED}, so 163,840 bytes of SRAM are assumed; --scheme {text} is" in found.err
    begin = f"used            {memory['sram_bytes']:,} of 163,840 bytes, assumed: {ASSUMED}; the "
    assert used(found.out).startswith(begin)
    budget = run(*command, "--sram", "160K", "--json").json
    assert budget["state_sha256"] == facts["state_sha256"]
    assert not budget["memory"]["is_assumed"]


def test_without_a_board_a_model_that_is_too_large_trains_its_head(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = prepare(small, "head").plan.sram_bytes
    monkeypatch.setattr(memory_limit, "USUAL_SRAM", head - 96)
    command = ("simulate", small, "--data", DATA, *FEW)
    found, named = run(*command), run(*command, "--scheme", "head")
    assert (
        f"--scheme head is chosen: even the head takes more than {head - 96:,} bytes; " in found.err
    )
    said = f"used            {head:,} of {head - 96:,} bytes, assumed: {ASSUMED}, 96 too many; "
    assert used(found.out) == used(named.out) == f"{said}nothing that trains takes less"
    budget = run(*command, "--sram", head - 96).sentence
    begin = f"nothing can be trained in {head - 96:,} bytes: the head alone takes {head:,}"
    assert budget.startswith(begin)


@pytest.mark.slow
def test_the_smaller_scheme_is_told_with_what_it_takes_and_runs(run: Run, small: Path) -> None:
    """One epoch of so few samples would be the head's alone."""
    command = ("simulate", small, "--data", DATA, *FEW, "--epochs", 4)
    smaller = run(*command, "--json").json["memory"]["smaller"]
    (line,) = (line for line in run(*command).out.splitlines() if line.startswith("smaller "))
    share = f"{5 * round(20 * smaller['share'])} % of what this one adds to the classifier"
    begin = f"smaller         {smaller['sram_bytes']:,} bytes, roughly {share} by gradients"
    assert line.startswith(begin)
    assert line.endswith(f"--scheme {smaller['scheme']}")
    found = run(*shlex.split(smaller["command"])[1:]).json  # with --json, as it was typed
    assert found["scheme"] == smaller["scheme"]
    assert found["memory"]["sram_bytes"] == smaller["sram_bytes"] <= 131_072
    assert found["memory"]["smaller"] is None  # it was named, and nothing was measured


def test_a_scheme_that_is_named_is_compared_with_a_usual_limit(run: Run, small: Path) -> None:
    found = run("simulate", small, "--data", DATA, *FEW, "--scheme", "head")
    size = prepare(small, "head").plan.sram_bytes
    begin = f"used            {size:,} of 262,144 bytes, assumed: {ASSUMED}; the next scheme takes "
    assert used(found.out).startswith(begin)
    assert "mcutrain: note" not in found.err
    assert "\nsmaller" not in found.out


@pytest.mark.slow
def test_a_run_that_goes_on_has_the_scheme_of_its_checkpoint(run: Run, small: Path) -> None:
    command = ("simulate", small, "--data", DATA, *FEW, "--checkpoint", "run.npz")
    first = run(*command, *BOARD, "--json").json
    again = run(*command, "--json").json  # no board: nothing could be chosen as before
    assert again["scheme"] == first["scheme"] != "head"
    assert again["state_sha256"] == first["state_sha256"]
    assert run(*command, "--scheme", "auto", "--json").json["scheme"] == first["scheme"]
    assert "belongs to another" in run(*command, "--scheme", "head").sentence


@pytest.mark.parametrize("flags", [("--pet", "gain"), ("--ways", 2, "--shots", 3), ("--epochs", 0)])
def test_where_no_scheme_can_be_chosen_it_is_the_head(
    run: Run, small: Path, flags: tuple[object, ...]
) -> None:
    few = FEW if "--ways" not in flags else ("--epochs", 1, "--lr", 0.03, "--episodes", 1)
    command = ("simulate", small, "--data", DATA, *few, *flags, *BOARD)
    found, named = (run(*command, *scheme).out for scheme in ((), ("--scheme", "head")))
    sizes = [text.partition("SRAM ")[2].splitlines()[0] for text in (found, named)]
    assert sizes[0] == sizes[1] != ""
    found = run(*command, "--scheme", "auto")
    assert found.code == 2
    assert f"the scheme auto does not go with {flags[0]}" in found.sentence


def test_flags_that_a_memory_depends_on_are_checked(run: Run, small: Path, tmp_path: Path) -> None:
    command = ("simulate", small, "--data", DATA, *FEW)
    assert "there is no board 'nucleo'" in run(*command, "--board", "nucleo").sentence
    assert "only a board has slots" in run(*command, "--slots", "off").sentence
    tiny = run(*command, "--sram", "1K").sentence
    assert tiny.startswith("nothing can be trained in 1,024 bytes: the head alone takes ")


@pytest.mark.slow
def test_other_commands_choose_the_same_and_find_it_in_the_cache(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(DATA) as file:
        few = {name: file[name][:60] for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez("few.npz", **few, names=np.load(DATA)["names"])
    flags = ("--data", "few.npz", *BOARD)
    learning = ("--epochs", 1, "--lr", 0.03)
    text = run("simulate", small, *flags, *learning, "--save-state", "s.mcts", "--json").json[
        "scheme"
    ]
    with monkeypatch.context() as patch:
        patch.setattr(choosers, "by_gradient", None)
        patch.setattr(choosers, "Selector", None)
        planned = run("plan", small, "--scheme", "auto", *flags, "--json").json
        assert planned["scheme"] == text
        assert run("generate", small, "--scheme", "auto", *flags, "-o", "project").code == 0
        rows = run(
            *("compare", small, "--scheme", "auto", "--scheme", "s.mcts", *flags, *learning),
            *("--seeds", 1, "--jobs", 1, "--json"),
        ).json["rows"]
        names = [(row["name"], row["scheme"]) for row in rows[-2:]]
        assert names == [("auto", text), (text, text)]
    made = json.loads(Path("project/manifest.json").read_text())
    assert made["recipe"]["scheme"]["name"] == text
    kept = run("plan", small, "--scheme", "s.mcts", *BOARD, "--json").json
    assert kept == planned


@pytest.mark.parametrize("command", [("plan",), ("generate", "-o", "project")])
def test_a_board_without_samples_is_told_that_only_the_head_is_trained(
    run: Run, small: Path, command: tuple[str, ...]
) -> None:
    found = run(command[0], small, *command[1:], *BOARD)
    named = run(command[0], small, *command[1:], *BOARD, "--scheme", "head")
    assert found.code == named.code == 0
    assert found.out == named.out
    assert named.err == ""
    (note,) = found.err.splitlines()
    assert note.startswith("mcutrain: note: only the classifier is trained (--scheme head). ")
    words = shlex.split(note.partition(" fits ")[2].partition(": ")[2].partition(";")[0])
    typed = ["mcutrain", command[0], str(small), *command[1:], *BOARD]
    assert words == [*typed, "--scheme", "auto", "--data", "DIR"]
    assert run(command[0], small, *command[1:]).err == ""  # no board: nothing to choose for
    for fixed in (("--json",), ("--add-class", "shoe")):
        assert "note: only" not in run(command[0], small, *command[1:], *BOARD, *fixed).err


@pytest.mark.parametrize("command", [("plan",), ("generate", "-o", "project")])
def test_what_cannot_be_read_is_not_told_that_only_its_head_is_trained(
    run: Run, command: tuple[str, ...]
) -> None:
    found = run(command[0], MODEL.with_name("fashion.onnx"), *command[1:], *BOARD)
    assert found.code == 2
    assert "the model is float" in found.sentence
    assert "note:" not in found.err


@pytest.mark.slow
def test_plan_and_generate_choose_by_samples_that_they_are_given(run: Run, small: Path) -> None:
    flags = ("--data", DATA, "--sram", "40K")
    chosen = run("plan", small, *flags, "--scheme", "auto", "--json").json
    assert chosen["scheme"] != "head"
    assert run("plan", small, *flags, "--json").json == chosen
    assert run("generate", small, "--data", DATA, *BOARD, "-o", "project").code == 0
    made = json.loads(Path("project/manifest.json").read_text())
    planned = run("plan", small, "--data", DATA, *BOARD, "--json").json
    assert made["recipe"]["scheme"]["name"] == planned["scheme"] != "head"
    assert run("generate", MODEL, "--data", DATA, "--imprint", "-o", "project").code == 0
    made = json.loads(Path("project/manifest.json").read_text())
    assert made["recipe"]["scheme"]["name"] == "head"  # a class needs no layer before it


@pytest.mark.parametrize("command", [("plan",), ("generate", "-o", "project")])
def test_auto_without_samples_is_a_sentence(
    run: Run, small: Path, command: tuple[str, ...]
) -> None:
    found = run(command[0], small, *command[1:], "--scheme", "auto", *BOARD)
    assert found.code == 2
    assert "auto chooses by training samples: give them" in " ".join(found.err.split())


def test_a_plan_with_modules_chooses_no_scheme(run: Run, small: Path) -> None:
    found = run("plan", small, "--scheme", "auto", "--pet", "gain", "--data", DATA)
    assert found.sentence.startswith("the scheme auto does not go with --pet: say what to train")


def test_where_nothing_larger_is_left_memory_is_not_the_limit() -> None:
    (line,) = Used(1000, MemoryLimit.of(sram=4096)).lines()
    assert line.startswith("used            1,000 of 4,096 bytes")
    assert line.endswith(": memory is not the limit, no scheme trains more")
