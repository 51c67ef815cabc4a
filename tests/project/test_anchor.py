"""benchmarks/anchor.py: what it finds, trains, keeps and prints."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import mcutrain
from mcutrain.errors import ArgumentError

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "mcutrain/demo"
SRAM_LIMIT = "last:3"


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The script, and the numbers that it prints beside ours."""
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        yield importlib.import_module("anchor"), importlib.import_module("published")
    finally:
        sys.path.remove(str(REPOSITORY / "benchmarks"))
        for name in ("anchor", "published"):
            sys.modules.pop(name, None)


@pytest.fixture
def anchor(modules: tuple[ModuleType, ModuleType]) -> ModuleType:
    return modules[0]


@pytest.fixture
def published(modules: tuple[ModuleType, ModuleType]) -> ModuleType:
    return modules[1]


@pytest.fixture
def places(
    anchor: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """A folder of data sets and a shared folder whose only network is the demo's."""
    (tmp_path / "shared/models").mkdir(parents=True)
    shutil.copy(DEMO / "fashion.int8.tflite", tmp_path / "shared/models/demo.int8.tflite")
    (tmp_path / "sets").mkdir()
    with np.load(DEMO / "fashion.npz") as file:
        parts = {key: file[key][:60] for key in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "sets/CIFAR-10.npz", **parts)
    monkeypatch.setattr(anchor, "NETWORKS", {"demo": {"49kb": "bias:2", "100kb": SRAM_LIMIT}})
    return tmp_path / "sets", tmp_path / "shared"


def arguments(places: tuple[Path, Path], *more: str) -> list[str]:
    sets, shared = places
    out = str(sets.parent / "out.json")
    return ["--data", str(sets), "--shared", str(shared), "--out", out, "--epochs", "1", *more]


def run(anchor: ModuleType, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["anchor.py", *given])
    anchor.main()


def stopped(anchor: ModuleType, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> object:
    with pytest.raises(SystemExit) as caught:
        run(anchor, monkeypatch, given)
    return caught.value.code


def cells(places: tuple[Path, Path]) -> list[dict[str, Any]]:
    kept = json.loads((places[0].parent / "out.json").read_text(encoding="utf-8"))
    return [value for value in kept.values() if "accuracy" in value]


def test_published_means_are_those_of_their_columns(published: ModuleType) -> None:
    checked = 0
    for result in published.RESULTS:
        keys = published.MEANS["mean of 8"]
        if set(keys) <= set(result.accuracy):
            found = sum(result.accuracy[key] for key in keys) / len(keys)
            half = 0.5 * 10**-result.digits + 1e-9  # they round
            assert abs(found - result.accuracy["mean of 8"]) <= half, result
            checked += 1
    assert checked == 4


def test_every_number_has_its_conditions(published: ModuleType, anchor: ModuleType) -> None:
    assert {result.note for result in published.RESULTS} == set(published.NOTES)
    for result in published.RESULTS:
        assert result.source in published.SOURCES
        assert result.network in anchor.NETWORKS
        assert set(result.accuracy) <= {*published.KEYS, *published.MEANS}


def test_conditions_are_those_of_the_notes_and_their_sources(published: ModuleType) -> None:
    lines = published.conditions({"e", "b"})
    assert [line.split(":")[0] for line in lines] == [published.LIN, "b", "e"]
    assert "50 epochs" in lines[0]
    assert [line[0] for line in published.conditions(["h"])] == [published.TRADY[0], "h"]
    assert published.conditions([]) == []


def test_shipped_schemes_are_those_of_the_networks(anchor: ModuleType) -> None:
    for network, schemes in anchor.NETWORKS.items():
        for name in schemes.values():
            assert name.startswith(network)
            assert mcutrain.parse_scheme(name).name == name


def test_data_sets_are_found_by_their_names(anchor: ModuleType, tmp_path: Path) -> None:
    for folder in ("CUB_200_2011", "Oxford-IIIT-Pet", "notes"):
        (tmp_path / folder).mkdir()
    for file in ("cifar-100.npz", "flowers.tgz"):
        (tmp_path / file).touch()
    own = tmp_path / "mine.npz"
    found = anchor.find_sets(tmp_path, [], tmp_path)
    assert [place.key for place in found] == ["cf100", "cub", "pets"]
    found = anchor.find_sets(tmp_path, ["pets", "Cars", f"mine={own}"], tmp_path)
    assert [(place.title, place.key) for place in found] == [("Pets", "pets"), ("mine", "")]
    assert [place.title for place in anchor.find_sets(tmp_path, [f"a={own}"], tmp_path)] == ["a"]


def test_names_that_mean_no_or_two_sets_are_refused(anchor: ModuleType, tmp_path: Path) -> None:
    for file in ("food101.npz", "food-101.npz"):
        (tmp_path / file).touch()
    with pytest.raises(ArgumentError, match="--sets: imagenet is none of cars, cf10"):
        anchor.find_sets(tmp_path, ["imagenet"], tmp_path)
    with pytest.raises(ArgumentError, match=r"food-101\.npz and food101\.npz, which are both Food"):
        anchor.find_sets(tmp_path, ["food"], tmp_path)
    with pytest.raises(ArgumentError, match="names a data set twice"):
        anchor.find_sets(tmp_path, ["a=1", "a=2"], tmp_path)
    with pytest.raises(ArgumentError, match=r"--data .*absent cannot be read"):
        anchor.find_sets(tmp_path / "absent", [], tmp_path)


def test_what_is_not_there_is_named_with_its_place(anchor: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / anchor.SUBSET).touch()
    found = anchor.find_sets(None, ["cf10", "vww"], tmp_path)
    assert [place.title for place in found] == ["CF10 subset"]
    lines = anchor.missing(found, ["cf10", "vww"])
    assert len(lines) == 2
    assert lines[0].startswith("not found: CF10 (cifar10), published at https://www.cs.toronto")
    assert lines[0].endswith("; CF10 subset is taken")
    assert "tensorflow/models" in lines[1]
    assert anchor.missing([], ["mine=x"]) == []


@pytest.mark.slow
def test_cells_are_what_simulate_gives_and_are_trained_once(
    anchor: ModuleType,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = arguments(places, "--lr", "0.01", "--seeds", "2")
    run(anchor, monkeypatch, given)
    printed = capsys.readouterr().out
    assert "60 / 60, 10 classes *" in printed
    assert "not found: Cars" in printed
    kept = cells(places)
    assert len(kept) == 4 * 2
    model = places[1] / "models/demo.int8.tflite"
    for cell in kept:
        scheme = cell["of"]["scheme"]
        if "\n" in scheme:
            (places[0].parent / "selected.toml").write_text(scheme, encoding="utf-8")
            scheme = places[0].parent / "selected.toml"
        result = mcutrain.simulate(
            model,
            places[0] / "CIFAR-10.npz",
            scheme,
            classes=10,
            epochs=1,
            learning_rate=0.01,
            seed=cell["of"]["seed"],
        )
        assert (cell["accuracy"], cell["sram_bytes"]) == (result.accuracy, result.sram_bytes)
    limit = mcutrain.prepare(model, SRAM_LIMIT, classes=10).plan.sram_bytes
    by_scheme = {cell["of"]["scheme"]: cell["sram_bytes"] for cell in kept}
    assert len(by_scheme) == 4
    assert max(by_scheme.values()) == by_scheme[SRAM_LIMIT] == limit

    monkeypatch.setattr(mcutrain, "simulate", None)
    monkeypatch.setattr(mcutrain, "analyze", None)
    run(anchor, monkeypatch, given)
    again = capsys.readouterr().out
    assert again[again.index("┏") :] == printed[printed.index("┏") :]
    assert cells(places) == kept


@pytest.mark.slow
def test_folders_of_images_are_trained_and_chosen_for(
    anchor: ModuleType,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Few images of two classes, as a user has them on disk; from reading to the table."""
    with np.load(DEMO / "fashion.npz") as file:
        for part, count in (("train", 12), ("test", 8)):
            x, y = file[f"x_{part}"], file[f"y_{part}"]
            for label, name in ((1, "trousers"), (7, "shoe")):
                folder = places[0] / "own" / part / name
                folder.mkdir(parents=True)
                for i in np.flatnonzero(y == label)[:count]:
                    Image.fromarray(x[i].squeeze()).save(folder / f"{i}.png")
    own = f"own={places[0] / 'own'}"
    given = arguments(places, "--sets", own, "--lr", "0.01", "--seeds", "1")
    run(anchor, monkeypatch, [*given, "--schemes", "head", "selected"])
    printed = capsys.readouterr().out
    assert "24 / 16, 2 classes" in printed
    assert "not found" not in printed
    assert printed.count("(1 seed)") == 2
    kept = cells(places)
    assert len(kept) == 2
    assert any("\n" in cell["of"]["scheme"] for cell in kept)  # the selected one
    assert max(cell["accuracy"] for cell in kept) > 0.8  # 16 test images


@pytest.mark.slow
def test_ctrl_c_loses_one_cell(
    anchor: ModuleType,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    simulate, left = mcutrain.simulate, [2]

    def interrupted(*given: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return simulate(*given, **more)

    monkeypatch.setattr(mcutrain, "simulate", interrupted)
    given = arguments(places, "--lr", "0.01", "--schemes", "head", "49kb")
    assert stopped(anchor, monkeypatch, given) == anchor.INTERRUPTED
    assert "out.json has what was done" in capsys.readouterr().err
    assert len(cells(places)) == 2
    left[0] = 4
    run(anchor, monkeypatch, given)
    assert (left[0], len(cells(places))) == (0, 6)


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    "more",
    [
        ["--lr", "0.02"],
        ["--epochs", "2"],
        ["--head-rate", "8"],
        ["--flip"],
        ["--samples", "30"],
        ["--test-samples", "30"],
    ],
)
def test_another_setting_is_another_cell(
    anchor: ModuleType,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
) -> None:
    given = arguments(places, "--lr", "0.01", "--seeds", "1", "--schemes", "head")
    run(anchor, monkeypatch, given)
    run(anchor, monkeypatch, [*given, *more])
    first, second = cells(places)
    assert first["of"] != second["of"]


def test_other_samples_are_another_cell(
    anchor: ModuleType, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arguments(places, "--lr", "0.01", "--seeds", "1", "--schemes", "head")
    run(anchor, monkeypatch, given)
    path = places[0] / "CIFAR-10.npz"
    with np.load(path) as file:
        parts = dict(file)
    parts["x_test"] = parts["x_test"][::-1].copy()
    np.savez(path, **parts)
    run(anchor, monkeypatch, given)
    assert len(cells(places)) == 2


def test_another_program_is_another_cell(
    anchor: ModuleType, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arguments(places, "--lr", "0.01", "--seeds", "1", "--schemes", "head")
    run(anchor, monkeypatch, given)
    monkeypatch.setattr(anchor, "code_digest", lambda: "another")
    run(anchor, monkeypatch, given)
    assert len(cells(places)) == 2


def test_test_samples_choose_nothing(anchor: ModuleType, places: tuple[Path, Path]) -> None:
    def loaded(**changed: Any) -> Any:
        path = places[0] / "CIFAR-10.npz"
        with np.load(path) as file:
            np.savez(places[0] / "changed.npz", **{**file, **changed})
        graph = mcutrain.load(places[1] / "models/demo.int8.tflite")
        return anchor.Loaded.of(graph, anchor.Place("x", path.parent / "changed.npz"), course)

    course = anchor.Course()
    with np.load(places[0] / "CIFAR-10.npz") as file:
        train, test = file["x_train"][::-1].copy(), file["x_test"][::-1].copy()
    plain, other_test, other_train = loaded(), loaded(x_test=test), loaded(x_train=train)
    assert plain.choosing_digest == other_test.choosing_digest != other_train.choosing_digest
    assert len({found.digest for found in (plain, other_test, other_train)}) == 3


def test_an_analysis_is_of_as_many_steps_as_a_cell(
    anchor: ModuleType, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def analyze(*given: Any, samples: int, epochs: int, **more: Any) -> Any:
        asked.append((samples, epochs))
        raise ArgumentError("enough")

    monkeypatch.setattr(mcutrain, "analyze", analyze)
    given = arguments(places, "--lr", "0.01", "--schemes", "selected", "--epochs", "7")
    assert stopped(anchor, monkeypatch, given) == 2
    assert asked == [(30, 14)]  # 60 samples are trained on, of which half are held out


@pytest.mark.slow
def test_processes_train_the_same_cells(
    anchor: ModuleType, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arguments(places, "--lr", "0.01", "--seeds", "2", "--schemes", "head", "49kb")

    def kept() -> list[Any]:
        run(anchor, monkeypatch, given)
        found = {json.dumps(cell["of"]): cell["accuracy"] for cell in cells(places)}
        (places[0].parent / "out.json").unlink()
        return sorted(found.items())

    alone = kept()
    given += ["--jobs", "2"]
    assert kept() == alone


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--sets", "imagenet"], "imagenet is none of"),
        (["--sets", "cars"], "none of the data sets was found"),
        (["--sets", "mine=/nowhere.npz"], "/nowhere.npz does not exist"),
    ],
)
def test_what_cannot_be_trained_is_a_sentence(
    anchor: ModuleType,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    said: str,
) -> None:
    assert stopped(anchor, monkeypatch, arguments(places, *more)) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_result_is_refused(
    anchor: ModuleType,
    places: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (places[0].parent / "out.json").write_text("[1, 2", encoding="utf-8")
    assert stopped(anchor, monkeypatch, arguments(places)) == 2
    assert "out.json holds no results of this script" in capsys.readouterr().err


def rows_of(anchor: ModuleType, places: list[Any], *, is_whole: bool = True) -> list[Any]:
    """Two equal seeds of mbv2-w0.35's 100 KB scheme on each."""
    cell = {"accuracy": 0.5, "sram_bytes": 1234, "learning_rate": 0.1}
    return [
        anchor.Row("mbv2-w0.35", place, "100kb", (8, 9, 2), is_whole, (cell, cell))
        for place in places
    ]


def lines_of(table: Any) -> list[tuple[str, ...]]:
    return list(zip(*(map(str, column._cells) for column in table.columns), strict=True))


def test_published_numbers_stand_beside_the_same_network_set_and_scheme(
    anchor: ModuleType,
) -> None:
    places = [anchor.Place("Cars", Path("cars"), "cars"), anchor.Place("CUB", Path("cub"), "cub")]
    places.append(anchor.Place("mine", Path("mine")))
    table, notes = anchor.table("mbv2-w0.35", rows_of(anchor, places, is_whole=False))
    sizes, ours = "8 / 9, 2 classes *", ("100kb", "1,234", "50.0 ± 0.0", "0.1")
    assert lines_of(table) == [
        (f"Cars\n{sizes}", *ours, "52.32 ± 0.66 e", "–"),
        (f"CUB\n{sizes}", *ours, "54.72 ± 0.52 e", "–"),
        ("", "27,946 values", "", "", "", "–", "57.90 g"),
        ("", "27,946 values, static", "", "", "", "–", "56.85 h"),
        (f"mine\n{sizes}", *ours, "–", "–"),
        ("mean of 8", "100kb", "", "", "", "71.43 ± 0.07 e", "–"),
        ("mean of 7", "27,946 values", "", "", "", "–", "74.91 ± 0.64 g"),
        ("mean of 7", "27,946 values, static", "", "", "", "–", "74.22 h"),
    ]
    assert notes == {"e", "g", "h"}


def test_own_data_alone_has_no_published_means(anchor: ModuleType) -> None:
    own = anchor.Place("mine", Path("mine"))
    table, notes = anchor.table("mbv2-w0.35", rows_of(anchor, [own]))
    assert len(lines_of(table)) == 1
    assert notes == set()


def test_the_error_is_that_of_the_mean(anchor: ModuleType) -> None:
    assert anchor.with_error([1.0, 3.0]) == "2.0 ± 1.0"
    assert anchor.with_error([1.25]) == "1.2 (1 seed)"
    assert anchor.with_error([]) == ""


def test_a_mean_of_ours_needs_all_sets(anchor: ModuleType, published: ModuleType) -> None:
    known = [anchor.Place(s.title, Path(s.key), s.key) for s in published.SETS]

    def means(rows: list[Any]) -> list[str]:
        table, _ = anchor.table("mbv2-w0.35", rows)
        return [line[3] for line in lines_of(table) if line[0] == "mean of 8"]

    assert means(rows_of(anchor, known)) == ["50.0"]
    assert means(rows_of(anchor, known[1:])) == [""]
    assert means(rows_of(anchor, known, is_whole=False)) == [""]
