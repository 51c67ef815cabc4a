"""mcutrain export and diff as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.saved import SavedState

import mcutrain
from mcutrain import prepare
from mcutrain.errors import ArgumentError
from mcutrain.pipeline import load
from mcutrain.pipeline.recipe import Recipe, of_json
from mcutrain.pipeline.step_options import StepOptions
from mcutrain.sparse import UpdateScheme
from tests.cli.conftest import Run, run
from tests.trained.networks import classifier

__all__ = ["run"]

FLAGS = ("--scheme", "bias:2", "--epochs", 2, "--lr", 0.05)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(classifier())
    return path


@pytest.fixture
def checkpoint(run: Run, model: Path, tmp_path: Path) -> Path:
    """A finished run; its state beside it."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (20, 6, 6, 3)).astype(np.uint8)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(20) % 4)
    files = ("--checkpoint", "run.npz", "--save-state", "run.mcts")
    done = run("simulate", model, "--data", "data.npz", *FLAGS, *files)
    assert done.code == 0, done.err
    return tmp_path / "run.npz"


def test_a_checkpoint_says_itself_how_it_was_trained(run: Run, model: Path, checkpoint: Path):
    done = run("export", model, "--state", checkpoint, "-o", "trained.tflite")
    assert done.code == 0, done.err
    size = model.stat().st_size
    assert f"trained.tflite: {size:,} bytes; 4 tensors are new, all else is as in" in done.out
    assert "It was read back, and computes the same bits." in done.out
    table = run("diff", model, "trained.tflite").out
    assert "head/weight" in table
    assert "4 of 10 weights and biases differ" in table
    facts = run("diff", model, "trained.tflite", "--json").json
    names = ["deep/bias", "narrow/bias", "head/weight", "head/bias"]
    assert [t["name"] for t in facts["tensors"]] == names
    assert all(t["differing"] > 0 and not t["structure"] for t in facts["tensors"])


def test_a_bare_state_needs_the_flags_of_the_training(run: Run, model: Path, checkpoint: Path):
    state = Path("run.mcts")
    state.write_bytes(SavedState.parse(state.read_bytes(), "run.mcts").raw)
    export = ("export", model, "--state", "run.mcts", "-o", "trained.onnx")
    assert "run.mcts does not say how it was trained; give --scheme" in run(*export).sentence
    sentence = run(*export, "--scheme", "bias:3").sentence
    assert sentence.startswith("run.mcts was trained with another model, or with other flags")
    assert not Path("trained.onnx").exists()
    facts = run(*export, "--scheme", "bias:2", "--json").json
    assert facts["written_anew_because"].endswith("is of another format")
    assert facts["other_bits_because"] is None
    assert facts["outputs"] == [[1, 4]]
    run("export", model, "--state", checkpoint, "-o", "trained.tflite")
    assert run("diff", "trained.onnx", "trained.tflite", "--json").json["are_equal"]


@pytest.mark.parametrize("flags", [(), ("--scheme", "bias:2")])
def test_a_damaged_state_is_said_before_its_flags_are_asked_for(
    run: Run, model: Path, checkpoint: Path, flags: tuple[str, ...]
) -> None:
    state = Path("run.mcts")
    sound = SavedState.parse(state.read_bytes(), "run.mcts").raw
    changed = bytearray(sound)
    changed[-1] ^= 1
    export = ("export", model, "--state", "run.mcts", "-o", "trained.onnx", *flags)
    for damaged in (sound[:-1], sound[:20], bytes(changed)):
        state.write_bytes(damaged)
        assert run(*export).sentence == "run.mcts is damaged: its size or checksum is wrong"


def test_a_state_of_the_scheme_before_is_not_the_projects(
    run: Run, model: Path, checkpoint: Path
) -> None:
    generate = ("generate", model, "-o", "project")
    assert run(*generate, "--scheme", "bias:2").code == 0
    Path("run.mcts").rename("project/trained.mcts")
    export = ("export", model, "-o", "trained.tflite", "--state")
    assert run(*export, "project").code == 0
    assert run(*generate, "--scheme", "bias:3").code == 0
    assert run(*export, "project").sentence == (
        "project/trained.mcts was trained with another model or scheme than project has now "
        "(generated anew since?): give --state project/trained.mcts for what was trained then, or "
        "train the project"
    )
    assert run(*export, "project/trained.mcts").code == 0


def test_a_project_says_how_its_board_was_trained(run: Run, model: Path):
    generate = ("generate", model, "--scheme", "last:1,1:0.5", "--classes", 6, "-o", "project")
    assert run(*generate, "--gradient-bits", 16, "--accumulate", 3).code == 0
    export = ("export", model, "--state", "project", "-o", "trained.tflite")
    assert "cannot read project/trained.mcts: No such file or directory; `mcutrain train`" in (
        run(*export).sentence
    )
    step = prepare(load(model), "last:1,1:0.5", classes=6, gradient_dtype="int16", accumulate=3)
    Path("project/trained.mcts").write_bytes(step.reference().save())
    assert run(*export, "--json").json["outputs"] == [[1, 6]]
    manifest = json.loads(Path("project/manifest.json").read_text())
    assert of_json(json.dumps(manifest["recipe"]), "it") == step.recipe
    manifest["recipe"]["accumulate"] = "many"
    Path("project/manifest.json").write_text(json.dumps(manifest))
    assert "does not say how it was trained in a way that this version" in run(*export).sentence


def test_without_a_state_the_model_is_written_as_it_is(run: Run, model: Path):
    assert "nothing was trained" in run("export", model, "-o", "same.tflite").out
    assert Path("same.tflite").read_bytes() == model.read_bytes()
    same = run("diff", model, "same.tflite").out
    assert "equal: 10 weights and biases, and all operators" in same
    assert run("export", model, "-o", "other.onnx").code == 0
    assert run("diff", "other.onnx", model, "--json").json["are_equal"]


def test_models_that_share_no_name_are_said_to_be_others(run: Run, model: Path):
    renamed = model.read_bytes().replace(b"head", b"last")
    for name in (b"first", b"wide", b"deep", b"narrow"):
        renamed = renamed.replace(name, name[::-1])
    Path("other.tflite").write_bytes(renamed)
    said = run("diff", model, "other.tflite").out
    assert "no weight or bias has the same name in both" in said
    assert "0 of 0" not in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-o", "out.txt"), "out.txt must end with .tflite or .onnx, which tells its format"),
        (("-o", "nowhere/out.onnx"), "cannot write nowhere/out.onnx: there is no folder nowhere"),
        (("-o", "a.onnx", "--state", "no.npz"), "cannot read no.npz: No such file or directory"),
        (("-o", "a.onnx", "--state", "bad.npz"), "bad.npz is no checkpoint of mcutrain"),
        (("-o", "a.onnx", "--state", "bad.mcts"), "bad.mcts is no trained state of this version"),
        (
            ("-o", "a.onnx", "--state", "bad.mcts", "--scheme", "head"),
            "bad.mcts is no trained state of this version of mcutrain",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(run: Run, model: Path, arguments, says):
    Path("bad.npz").write_bytes(b"PK\3\4 and then nothing")
    Path("bad.mcts").write_bytes(b"MCTSnothing")
    assert says in run("export", model, *arguments).sentence
    assert sorted(p.name for p in Path().iterdir()) == ["bad.mcts", "bad.npz", "model.tflite"]


def test_a_model_is_not_written_over_by_the_trained_one(run: Run, model: Path, checkpoint: Path):
    before = model.read_bytes()
    Path("link.tflite").symlink_to(model)
    for output in (model, Path("link.tflite")):
        sentence = run("export", model, "--state", checkpoint, "-o", output).sentence
        assert sentence == (
            f"{output} is the model itself, which states of its training belong to: give another "
            "file for the trained one"
        )
        with pytest.raises(ArgumentError, match="is the model itself"):
            mcutrain.export(model, output, checkpoint)
    assert model.read_bytes() == before


def test_an_older_checkpoint_is_read_with_flags(run: Run, model: Path, checkpoint: Path):
    with np.load(checkpoint) as file:
        np.savez(checkpoint, saved=file["saved"], counts=file["counts"])
    export = ("export", model, "--state", checkpoint, "-o", "a.tflite")
    assert "does not say how it was trained" in run(*export).sentence
    assert run(*export, "--scheme", "bias:2").code == 0


def test_diff_names_a_file_that_is_none(run: Run, model: Path, tmp_path: Path):
    assert "cannot read no.onnx" in run("diff", model, "no.onnx").sentence
    (tmp_path / "other.tflite").write_bytes(classifier(2))
    out = run("diff", model, "other.tflite").out
    assert "10 of 10 weights and biases differ" in out
    assert "wide/weight: scale " in out


def test_a_recipe_is_kept_in_full():
    scheme = UpdateScheme("mine", None, {"3": 0.25}, 2, 8, 4, False, {"3": [0.5, 1.5]})
    outputs = {"classes": 7, "added": ("up", "down"), "loss": "mse"}
    recipe = Recipe(scheme, StepOptions("int16", 5, gate=0.8, elastic=True, **outputs))
    assert of_json(recipe.to_json(), "it") == recipe
