"""A state says how it was trained: whatever the flags were, export needs none of them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host.errors import StateFileError
from mcutrain_host.saved import HEADER_BYTES, RECIPE_MAGIC, SavedState, StateFile, with_recipe

import mcutrain
from mcutrain import prepare
from mcutrain.demo import IMAGES, MODEL
from mcutrain.formats import write
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.pipeline import load
from mcutrain.pipeline.recipe import of_json
from mcutrain.proxies import write_ladder
from mcutrain.trained import model_of, step_of
from tests.cli.conftest import Outcome, Run, run
from tests.proxies import ladders
from tests.simulation.autoencoders import dense
from tests.trained.networks import classifier

__all__ = ["run"]

SHORT = ("--epochs", 1, "--lr", "0.05")
STATES = ("run.mcts", "run.npz")
FLAGS = {
    "head": "--scheme head",
    "last": "--scheme last:2",
    "layers": "--scheme narrow:0.5,bias:3 --residual-bits 2",
    "head bits": "--scheme last:1 --residual-bits 8 --head-residual-bits 0",
    "head rate": "--scheme last:1 --head-rate 8",
    "bias bits": "--scheme bias:3 --bias-bits 32",
    "no qas": "--scheme last:2 --no-qas --gradient-bits 16",
    "gate": "--scheme last:2 --gate 0.5",
    "accumulate": "--scheme bias:2 --accumulate 3",
    "elastic": "--scheme last:2 --elastic 1",
    "swap": "--scheme narrow:0.5 --resample drawn",
    "fisher": "--scheme narrow:0.5,wide:0.5 --resample fisher --gate 0.3",
    "classes": "--scheme last:1 --classes 6",
    "added": "--scheme last:1 --add-class e --add-class f",
    "scheme file": "--scheme mine.toml",
    "all": "--scheme narrow:0.5,bias:3 --resample drawn --elastic 1 --gate 0.5 --accumulate 2 "
    "--bias-bits 32 --residual-bits 4 --head-residual-bits 8 --classes 6 --gradient-bits 16",
}
PETS = ("adapter:2", "lora:1", "lora-fa:1", "gain", "bias:2", "adapter:1,gain,bias,rate:0.5")


@pytest.fixture
def model(run: Run, tmp_path: Path) -> Path:
    """A classifier and data of it; of classes that are added, too, with names."""
    path = tmp_path / "model.tflite"
    path.write_bytes(classifier(softmax=False))
    for name, count in (("data.npz", 4), ("more.npz", 6)):
        x = np.random.default_rng(0).integers(0, 256, (4 * count, 6, 6, 3)).astype(np.uint8)
        names = {"names": np.array(list("abcdef"))} if count == 6 else {}
        np.savez(tmp_path / name, x=x, y=np.arange(len(x)) % count, **names)
    toml = "bias_depth = 1\nresidual_bits = 2\n[weights]\nnarrow = 0.5\n[importance]\nnarrow = [{}]"
    (tmp_path / "mine.toml").write_text(toml.format(", ".join(str(i % 5) for i in range(12))))
    return path


def trained(run: Run, model: object, flags: str, data: str = "data.npz") -> None:
    """Leaves a state and a checkpoint."""
    more = ("--save-state", "run.mcts", "--checkpoint", "run.npz")
    done = run("simulate", model, "--data", data, *flags.split(), *SHORT, *more)
    assert done.code == 0, done.err


def exported(run: Run, model: object, state: object, *flags: str, to: str = "out.tflite") -> Graph:
    done = run("export", model, "--state", state, *flags, "-o", to)
    assert done.code == 0, done.err
    return load(to)


def without_recipe(state: str) -> str:
    """The same state as an earlier version wrote it."""
    Path("bare.mcts").write_bytes(SavedState.parse(Path(state).read_bytes(), state).raw)
    return "bare.mcts"


def check_holds_the_state(graph: Graph, model: Path) -> None:
    """The exported network computes what the step with this state computes."""
    saved = SavedState.parse(Path("run.mcts").read_bytes(), "run.mcts")
    recipe = of_json(saved.recipe, "run.mcts")
    step = step_of(model_of(load(model), recipe, "run.mcts"), recipe)
    reference = step.reference()
    begin = reference.save()
    assert saved.raw[HEADER_BYTES:] != begin[HEADER_BYTES:], "nothing was learnt"
    reference.load(saved.raw)
    kind = graph.tensors[graph.inputs[0]].type
    x = np.random.default_rng(3).integers(-128, 128, (4, *kind.shape[1:])).astype(np.int8)
    expected = np.asarray(reference.infer(x.reshape(4, *step.input_type.shape[1:])))
    for one, y in zip(x, expected, strict=True):
        found = interpret(graph, {graph.inputs[0]: one[None]})[graph.outputs[0]]
        assert np.array_equal(found.ravel(), y.ravel())


@pytest.mark.draws(5)
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_a_state_is_exported_without_the_flags_that_it_was_trained_with(
    run: Run, model: Path, flags: str
) -> None:
    more = "--classes" in flags or "--add-class" in flags
    trained(run, model, flags, "more.npz" if more else "data.npz")
    by_hand = [w.replace("--elastic 1", "--elastic") for w in flags.split()]
    if "--elastic" in by_hand:
        del by_hand[by_hand.index("--elastic") + 1]
    as_before = exported(run, model, without_recipe("run.mcts"), *by_hand or ("--scheme", "head"))
    before = Path("out.tflite").read_bytes()
    Path("mine.toml").unlink()
    for state in STATES:
        graph = exported(run, model, state)
        assert difference(graph, as_before) == ""
        if more:  # a recipe knows the names of the classes, too
            assert graph.class_names[-1] == "f"
        else:
            assert Path("out.tflite").read_bytes() == before
    check_holds_the_state(graph, model)


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("pet", PETS)
def test_modules_that_were_put_in_are_put_into_the_original_again(
    run: Run, model: Path, pet: str
) -> None:
    trained(run, model, f"--pet {pet} --scheme last:1")
    plain = exported(run, model, "run.mcts", to="plain.tflite")
    check_holds_the_state(plain, model)
    if pet == "bias:2":
        return
    for state in STATES:
        Path(state).unlink()
    trained(run, model, f"--pet {pet} --scheme last:1 --save-model with.tflite")
    kept = exported(run, "with.tflite", "run.npz", to="kept.tflite")
    assert difference(kept, plain) == ""
    assert difference(exported(run, model, "run.npz"), plain) == ""
    bare = exported(run, "with.tflite", without_recipe("run.mcts"), *f"--pet {pet}".split(),
                    "--scheme", "last:1")  # fmt: skip
    assert difference(bare, plain) == ""
    said = run("export", model, "--state", "run.mcts", "-o", "again.tflite").out
    assert "written anew: model.tflite has no modules" in said


def test_a_state_of_another_loss_says_so(run: Run, model: Path) -> None:
    graph = dense()
    write(graph, Path("auto.onnx"))
    x = np.random.default_rng(1).integers(-128, 128, (30, 24)).astype(np.int8)
    np.savez("sounds.npz", x=x)
    trained(run, "auto.onnx", "--scheme last:2 --loss mse", "sounds.npz")
    graph = exported(run, "auto.onnx", "run.mcts")
    check_holds_the_state(graph, Path("auto.onnx"))
    bare = without_recipe("run.mcts")
    assert difference(exported(run, "auto.onnx", bare, "--scheme", "last:2"), graph) == ""


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("drift", ["", "--policy-feedback"])
def test_a_state_knows_its_ladder(run: Run, drift: str) -> None:
    whole, _ = ladders.front_of(ladders.step())
    write_ladder(ladders.ladder(whole), Path("ladder"), whole)
    few = "--samples 8 --test-samples 4"
    flags = f"--scheme {ladders.SCHEME} --proxies ladder {drift}"
    trained(run, MODEL, f"{flags} {few}", str(IMAGES))
    by_hand = exported(run, MODEL, without_recipe("run.mcts"), *flags.split())
    for file in Path("ladder").iterdir():
        file.unlink()
    for state in STATES:
        assert difference(exported(run, MODEL, state), by_hand) == ""
    says = run("export", MODEL, "--state", "run.mcts", "-o", "a.tflite", "--part", "tail").sentence
    assert "was trained with --part whole, and --part tail is given" in says


def test_a_tail_of_a_project_is_exported_from_a_state_that_left_it(run: Run, model: Path) -> None:
    flags = ("--scheme", "last:1", "--part", "tail")
    assert run("generate", model, *flags, "-o", "project").code == 0
    recipe = json.loads(Path("project/manifest.json").read_text())["recipe"]
    step = prepare(model, "last:1", part="tail")
    raw = step.reference().save()
    Path("run.mcts").write_bytes(with_recipe(raw, json.dumps(recipe)))
    graph = exported(run, model, "run.mcts")
    assert difference(exported(run, model, without_recipe("run.mcts"), *flags), graph) == ""
    assert difference(graph, load(model)) == ""


CONTRADICTIONS = [
    ("--scheme last:1", "--scheme last:2, and --scheme last:1 is given"),
    ("--classes 6", "--classes keep, and --classes 6 is given"),
    ("--accumulate 1", "--accumulate 3, and --accumulate 1 is given"),
    ("--gate 0.7", "--gate 0.5, and --gate 0.7 is given"),
    ("--elastic", "no --elastic, and --elastic is given"),
    ("--resample drawn", "no --resample, and --resample drawn is given"),
    ("--gradient-bits 16", "--gradient-bits 8, and --gradient-bits 16 is given"),
    ("--no-qas", "no --no-qas, and --no-qas is given"),
    ("--bias-bits 32", "--bias-bits 16, and --bias-bits 32 is given"),
    ("--residual-bits 8", "--residual-bits 2, and --residual-bits 8 is given"),
    ("--head-residual-bits 0", "--head-residual-bits 4, and --head-residual-bits 0 is given"),
    ("--add-class e", "no --add-class, and --add-class e is given"),
    ("--loss mse", "--loss cross-entropy, and --loss mse is given"),
    ("--pet adapter:2", "no --pet, and --pet adapter:2 is given"),
    ("--policy-feedback", "no --policy-feedback, and --policy-feedback is given"),
    ("--part tail", "--part whole, and --part tail is given"),
]


def test_flags_that_contradict_the_state_are_refused_with_both_named(run: Run, model: Path) -> None:
    trained(run, model, "--scheme last:2 --gate 0.5 --accumulate 3")
    for state in STATES:
        for flags, says in CONTRADICTIONS:
            sentence = run("export", model, "--state", state, "-o", "a.tflite", *flags.split())
            assert sentence.sentence == (
                f"{state} was trained with {says}: leave out the flags of the training, "
                "the state has its own"
            )
    assert not Path("a.tflite").exists()
    same = "--scheme last:2 --gate 0.5 --accumulate 3 --loss auto --latent auto --classes keep"
    exported(run, model, "run.mcts", *same.split())
    exported(run, model, "run.mcts", "--accumulate", "3")


def test_a_state_of_another_model_is_refused_by_its_hash(run: Run, model: Path) -> None:
    trained(run, model, "--scheme last:1")
    other = Path("other.tflite")
    other.write_bytes(classifier(2, softmax=False))
    for state in STATES:
        sentence = run("export", other, "--state", state, "-o", "a.tflite").sentence
        assert sentence.startswith(f"{state} was trained from another model: its graph has the ")
        assert "that of other is " in sentence
    assert not Path("a.tflite").exists()


def test_a_model_may_have_another_name_now(run: Run, model: Path) -> None:
    trained(run, model, "--scheme last:1")
    exported(run, model, "run.mcts")
    renamed = model.rename("renamed.tflite")
    exported(run, renamed, "run.mcts", to="again.tflite")
    assert Path("out.tflite").read_bytes() == Path("again.tflite").read_bytes()


def test_what_a_later_version_says_more_is_named(run: Run, model: Path) -> None:
    """It may change what the state means, so nothing is written."""
    trained(run, model, "--scheme last:1")
    saved = SavedState.parse(Path("run.mcts").read_bytes(), "run.mcts")
    more = {**json.loads(saved.recipe), "momentum": 0.9}
    Path("run.mcts").write_bytes(with_recipe(saved.raw, json.dumps(more)))
    done: Outcome = run("export", model, "--state", "run.mcts", "-o", "a.tflite")
    assert "run.mcts does not say how it was trained" in done.sentence
    assert "'momentum'" in done.sentence
    assert not Path("a.tflite").exists()


def test_what_is_behind_a_state_is_checked(run: Run, model: Path) -> None:
    trained(run, model, "--scheme last:1")
    whole = Path("run.mcts").read_bytes()
    raw = SavedState.parse(whole, "run.mcts").raw
    at = len(raw)
    assert whole[at : at + 4] == RECIPE_MAGIC

    def sentence(content: bytes) -> str:
        Path("run.mcts").write_bytes(content)
        with pytest.raises(StateFileError) as error:
            StateFile.of(Path("run.mcts")).read(len(raw))
        done: Outcome = run("export", model, "--state", "run.mcts", "-o", "a.tflite")
        assert done.sentence == str(error.value)
        return str(error.value)

    assert "run.mcts is damaged" in sentence(whole[:-1])
    assert "run.mcts is damaged" in sentence(whole + b"\0")
    for place in (at, at + 8, at + 40, len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 1
        assert "run.mcts is damaged" in sentence(bytes(changed))
    later = bytearray(whole)
    later[at + 4] = 2
    assert "in format 2, and this version of mcutrain knows 1" in sentence(bytes(later))
    for end in range(at + 1, at + 16):
        assert "run.mcts is damaged" in sentence(whole[:end])


def test_python_exports_a_state_without_its_step(run: Run, model: Path) -> None:
    trained(run, model, "--scheme last:2 --elastic 1")
    whole: Any = mcutrain.export(model, "a.tflite", "run.mcts")
    assert whole.changed
    mcutrain.export(model, "b.tflite", Path("run.mcts").read_bytes())
    assert Path("a.tflite").read_bytes() == Path("b.tflite").read_bytes()


def test_diff_compares_a_model_with_what_a_state_makes_of_it(run: Run, model: Path) -> None:
    trained(run, model, "--scheme last:2 --elastic 1")
    exported(run, model, "run.mcts")
    expected = run("diff", model, "out.tflite", "--json").json
    for state in STATES:
        found = run("diff", model, state, "--json").json
        assert {**found, "second": ""} == {**expected, "second": ""}
        assert {**run("diff", state, model, "--json").json, "first": ""} == {
            **run("diff", "out.tflite", model, "--json").json,
            "first": "",
        }
    bare = without_recipe("run.mcts")
    assert "does not say how it was trained" in run("diff", model, bare).sentence
    assert "are both states" in run("diff", "run.mcts", "run.npz").sentence
