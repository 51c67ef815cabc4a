"""A command that writes a folder replaces what it wrote before, and nothing of anybody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcutrain.demo import MODEL, copy_files
from mcutrain.report.write import HTML, JSON
from tests.cli.conftest import Run

MINE = {
    "notes.txt": "years of work",
    "src/own.c": "int mine;",
    "include/own.h": "extern int mine;",
    "deep/er/own.c": "",
    "example/own.c": "int example;",
    "trained.mcts": "a state",
    "analysis.json": "{}",
}


def generate(run: Run, *flags: object) -> None:
    done = run("generate", MODEL, "-o", "project", *flags)
    assert done.code == 0, done.err


def files() -> set[str]:
    folder = Path("project")
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def add_mine() -> None:
    for name, text in MINE.items():
        path = Path("project") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("earlier", [False, True], ids=["", "manifest of an earlier version"])
def test_a_project_that_is_generated_anew_leaves_what_else_is_there(
    run: Run, earlier: bool
) -> None:
    generate(run, "--prefix", "old", "--scheme", "last:2")
    before = files()
    manifest = json.loads(Path("project/manifest.json").read_text())
    assert set(manifest["files"]) == before
    for made in ("build/x.o", "libold.a", "example/main", "src/old_model.o"):
        path = Path("project") / made
        path.parent.mkdir(exist_ok=True)
        path.write_text("made of it")
    if earlier:
        del manifest["files"]
        Path("project/manifest.json").write_text(json.dumps(manifest))
    else:
        add_mine()
    generate(run, "--board", "native")
    after = files()
    assert after >= set(json.loads(Path("project/manifest.json").read_text())["files"])
    assert not any("old_model" in name or name.startswith("build/") for name in after)
    if not earlier:
        assert after - set(json.loads(Path("project/manifest.json").read_text())["files"]) == {
            *MINE
        }
        assert {name: (Path("project") / name).read_text() for name in MINE} == MINE


def test_a_file_that_a_project_would_replace_is_named(run: Run) -> None:
    generate(run, "--board", "native")
    assert "library.properties" not in files()
    Path("project/library.properties").write_text("name=mine")
    before = {name: (Path("project") / name).read_bytes() for name in files()}
    sentence = run("generate", MODEL, "-o", "project").sentence
    assert sentence == (
        "project/library.properties: it was not written by this command, and would be replaced: "
        "move it elsewhere"
    )
    assert {name: (Path("project") / name).read_bytes() for name in files()} == before
    assert [path.name for path in Path().iterdir()] == ["project"]


@pytest.mark.parametrize("name", [HTML, JSON])
def test_a_report_does_not_replace_what_is_none(run: Run, name: str) -> None:
    Path("out").mkdir()
    (Path("out") / name).write_text('{"model": 1}' if name == JSON else "<html>mine</html>")
    mine = (Path("out") / name).read_text()
    generate(run)
    Path("out/manifest.json").write_text(Path("project/manifest.json").read_text())
    if name == JSON:
        assert run("report", "out").code == 2
    else:
        assert (
            "cannot write out/report.html: it was not written by" in run("report", "out").sentence
        )
    assert (Path("out") / name).read_text() == mine
    for _ in range(2):  # its own is replaced
        assert run("report", "project").code == 0


def test_the_demo_does_not_replace_data_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "sensor.npz").write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by this command"):
        copy_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sensor.npz"]
    copied = copy_files(tmp_path / "demo")
    copied[-1].unlink()  # as an interrupted one leaves it
    assert copy_files(tmp_path / "demo") == copied


def test_a_selection_does_not_replace_a_scheme_of_somebody_else(tmp_path: Path) -> None:
    from mcutrain.errors import McutrainError
    from mcutrain.functions.files import write_all

    files = {"scheme.toml": "new", "selection.json": "{}"}
    (tmp_path / "scheme.toml").write_text("mine")
    with pytest.raises(McutrainError, match=r"scheme\.toml is there: it was not written by"):
        write_all(tmp_path, files)
    assert (tmp_path / "scheme.toml").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1
    write_all(tmp_path / "own", {**files, "scheme.toml": "old"})
    write_all(tmp_path / "own", files)
    assert (tmp_path / "own" / "scheme.toml").read_text() == "new"
