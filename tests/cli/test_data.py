"""mcutrain data: what is found in a data set before anything is trained."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mcutrain
from mcutrain.demo import IMAGES, MODEL
from tests.cli.conftest import Run
from tests.quant.networks import OnnxNetwork
from tests.simulation.networks import detector
from tests.simulation.test_several import learnable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """12 cats and 3 dogs; a dog is a cat's file again, and a text lies beside."""
    rng = np.random.default_rng(0)
    root = tmp_path / "images"
    for name, count in (("cat", 12), ("dog", 3)):
        (root / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    (root / "dog/2.png").write_bytes((root / "cat/3.png").read_bytes())
    (root / "cat/notes.txt").write_text("not an image")
    return root


def test_samples_are_counted_by_class_and_part(run: Run, folder: Path) -> None:
    found = run("data", folder, "--test-share", "0.25", "--json").json
    counts = {c["name"]: (c["train"], c["test"], c["validation"]) for c in found["classes"]}
    assert counts == {"cat": (9, 3, 0), "dog": (2, 1, 0)}
    assert found["shape"] == [20, 24, 3]
    assert (found["dtype"], found["low"], found["high"]) == ("uint8", 0, 255)
    assert {c["output"] for c in found["classes"]} == {None}
    left_out, imbalance = found["notes"]
    assert "1 .txt" in left_out
    assert "4.5 times" in imbalance
    assert "--class-weights balanced" in imbalance


def test_a_column_of_which_nothing_is_known_is_not_shown(run: Run, folder: Path) -> None:
    titles, _, cat, *_ = run("data", folder, "--test-share", "0.25").out.splitlines()
    assert titles.split() == ["class", "training", "test"]
    assert cat.split() == ["cat", "9", "3"]


@pytest.mark.parametrize("part", ["train", "test"])
def test_equal_samples_are_named_by_their_files(run: Run, folder: Path, part: str) -> None:
    for other in ("train", "test"):
        (folder / other).mkdir()
    for name in ("cat", "dog"):
        (folder / name).rename(folder / "train" / name)
        (folder / "test" / name).mkdir()
        moved = "4.png" if name == "cat" else "1.png"
        (folder / "train" / name / moved).rename(folder / "test" / name / moved)
    if part == "test":
        (folder / "train/dog/2.png").rename(folder / "test/dog/2.png")
    twins = run("data", folder, "--json").json["twins"]
    assert twins == [
        {
            "one": str(Path("train/cat/3.png")),
            "other": str(Path(part, "dog/2.png")),
            "are_of_one_part": part == "train",
        }
    ]
    text = run("data", folder).out
    across = f"{int(part == 'test')} of them"
    assert across in text
    assert "train/cat/3.png" in text


def test_all_unreadable_files_are_named_at_once(run: Run, folder: Path) -> None:
    for name in ("cat/1.png", "dog/0.png"):
        (folder / name).write_text("broken")
    outcome = run("data", folder)
    assert outcome.code == 2
    assert "cat/1.png" in outcome.out
    assert "dog/0.png" in outcome.out
    assert "cat/2.png" not in outcome.out
    assert "mcutrain: error: " in outcome.err


def test_a_model_says_which_output_a_class_is(run: Run) -> None:
    found = run("data", IMAGES, "--model", MODEL, "--json").json
    graph = mcutrain.load(MODEL)
    data = mcutrain.describe_data(IMAGES, graph)
    assert found["classes"] == data.records()
    outputs = [c.output for c in data.classes]
    assert sorted(outputs) == list(range(len(outputs)))
    assert data.shape == graph.tensors[graph.inputs[0]].type.shape[1:]


def test_what_training_would_refuse_is_a_note(run: Run) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (20, 28, 28, 1), dtype=np.uint8)
    np.savez("x.npz", x=x, y=np.arange(20) % 2, names=["here", "there"])
    notes = run("data", "x.npz", "--model", MODEL, "--json").json["notes"]
    assert any("a new head of 2 outputs" in note for note in notes)


def test_a_float_model_says_how_images_are_read(run: Run, folder: Path) -> None:
    net = OnnxNetwork(["batch", 3, 8, 6])
    x = net.op("Flatten", net.op("GlobalAveragePool", net.conv("input", 3, 8)))
    model = net.save(Path("float.onnx"), net.gemm(x, 8, 2))
    found = run("data", folder, "--model", model, "--json").json
    assert sorted(found["shape"]) == [3, 6, 8]


def test_real_targets_have_ranges(run: Run, tmp_path: Path) -> None:
    rows = "\n".join(f"{i},{i * 2},{i / 4}" for i in range(10))
    Path("t.csv").write_text("a,b,height\n" + rows + "\n")
    net = OnnxNetwork(["batch", 2])
    model = net.save(Path("float.onnx"), net.gemm("input", 2, 1))
    found = run("data", "t.csv", "--model", model, "--targets", "height", "--json").json
    (target,) = found["targets"]
    assert target["name"] == "height"
    assert 0 <= target["low"] < target["mean"] < target["high"] <= 2.25
    assert not found["classes"]
    assert "height" in run("data", "t.csv", "--model", model, "--targets", "height").out


def test_labels_that_do_not_exclude_each_other_are_counted_each(run: Run) -> None:
    rows = [(i % 7, i % 5, int(i % 5 == 0), 255 if i == 9 else int(i % 2)) for i in range(60)]
    Path("t.csv").write_text(
        "x,z,fan,door\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    )
    net = OnnxNetwork(["batch", 2])
    model = net.save(Path("float.onnx"), net.gemm("input", 2, 2))
    flags = ("--model", model, "--targets", "fan,door")
    found = run("data", "t.csv", *flags, "--json").json
    counts = {c["name"]: c["train"] + c["test"] for c in found["classes"]}
    assert counts == {"fan": 12, "door": 29}


@pytest.mark.parametrize("names", [(), ("hum", "knock", "whistle")])
@pytest.mark.parametrize("with_model", [False, True])
def test_columns_of_arrays_are_labels_of_outputs(
    tmp_path: Path, names: tuple[str, ...], with_model: bool
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (40, 28, 28, 1), dtype=np.uint8)
    y = np.stack([np.arange(40) % 2, np.arange(40) % 4 == 0, np.zeros(40)], 1).astype(np.uint8)
    np.savez(tmp_path / "x.npz", x=x, y=y, **({"names": names} if names else {}))
    found = mcutrain.describe_data(tmp_path / "x.npz", MODEL if with_model else None)
    assert [c.train + c.test for c in found.classes] == [20, 10, 0]
    assert [c.name for c in found.classes] == list(names or "012")
    assert [c.output for c in found.classes] == ([0, 1, 2] if with_model else [None] * 3)
    assert sum("no sample of" in note for note in found.notes) == 2  # in each part


def test_columns_without_names_have_those_of_the_outputs(tmp_path: Path) -> None:
    x = np.zeros((20, 28, 28, 1), np.uint8)
    np.savez(tmp_path / "x.npz", x=x, y=np.ones((20, 3), np.uint8) * (np.arange(3) != 1))
    names = ["hum", "knock", "whistle"]
    found = mcutrain.describe_data(tmp_path / "x.npz", MODEL, class_names=names)
    assert [(c.name, c.output, c.train + c.test) for c in found.classes] == [
        ("hum", 0, 20),
        ("knock", 1, 0),
        ("whistle", 2, 20),
    ]


def test_labels_of_positions_are_counted_by_class(tmp_path: Path) -> None:
    y = np.zeros((20, 5), np.uint8)
    y[:, :2] = 1
    np.savez(tmp_path / "x.npz", x=np.zeros((20, 5, 4), np.float32), y=y, names=["quiet", "loud"])
    found = mcutrain.describe_data(tmp_path / "x.npz")
    assert [c.train + c.test for c in found.classes] == [60, 40]


def test_what_is_of_a_model_needs_one(run: Run, folder: Path) -> None:
    Path("t.csv").write_text("a,label\n1,x\n2,y\n")
    for why, given in (
        ("--frontend", (folder, "--frontend", "nope")),
        ("--class-names", (folder, "--class-names", "a,b")),
        ("--model", ("t.csv",)),
    ):
        outcome = run("data", *given)
        assert outcome.code == 2, given
        assert f"Invalid value for {why}" in outcome.err


def test_several_outputs_have_the_ranges_of_their_labels(tmp_path: Path) -> None:
    x, y = learnable("boxes,classes")
    np.savez(tmp_path / "d.npz", x=x, boxes=y[:, :4], classes=y[:, 4].astype(np.int64))
    found = mcutrain.describe_data(tmp_path / "d.npz", detector("boxes,classes"))
    assert not found.notes
    assert not found.refusal
    assert [(row.low, row.high) for row in found.targets][4:] == [(0, 2)]


def test_a_contact_sheet_shows_samples_of_each_class(run: Run, folder: Path) -> None:
    assert run("data", folder, "--html", "sheet.html").code == 0
    page = Path("sheet.html").read_text()
    assert page.count("<img") == 8 + 2
    assert page.count("data:image/png;base64,") == 10
    assert "cat: 10 training samples" in page


@pytest.mark.parametrize("shape", [(5,), (7, 3), (4, 6, 2), (4, 6, 3)])
def test_any_samples_can_be_shown(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(0, 1, (10, *shape)).astype(np.float32)
    found = mcutrain.describe_data((x, np.arange(10) % 2))
    page = found.write_html(tmp_path / "sheet.html").read_text()
    assert page.count("<img") == 8
    assert found.summary().startswith("8 + 2 samples")


def test_a_sheet_of_nothing_is_a_sentence(tmp_path: Path) -> None:
    found = mcutrain.describe_data(tmp_path / "missing")
    assert "does not exist" in found.refusal
    with pytest.raises(mcutrain.McutrainError, match="does not exist"):
        found.write_html(tmp_path / "sheet.html")
