"""Every notebook runs from its first cell to its last, and shows what a notebook shows.

A cell is executed as IPython does it: its statements, then the value of its last expression, which
is displayed by `_repr_html_` or `repr`. Nothing of Jupyter is needed for that.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import mcutrain
from mcutrain import demo

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def executed(source: str, names: dict[str, Any], where: str) -> Any:
    """The value of the last line, if it is an expression."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), where, "eval"), names)


def test_every_notebook_has_a_test() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["mcutrain-from-python", "own-loop"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_small(path: Path) -> None:
    assert path.stat().st_size < 20_000
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def shown_values(name: str) -> list[Any]:
    """What the cells of a notebook show, in a folder of its own."""
    names: dict[str, Any] = {}
    cells = code_cells(DOCS / "tutorials" / f"{name}.ipynb")
    return [
        executed("".join(cell["source"]), names, f"{name}, code cell {number}")
        for number, cell in enumerate(cells)
    ]


@pytest.mark.slow
def test_from_a_float_model_to_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = []
    for shown in shown_values("mcutrain-from-python"):
        if hasattr(shown, "_repr_html_"):
            assert len(repr(shown)) < 250
            drawn.append(type(shown).__name__)
            assert "<svg" in shown._repr_html_() or "<table" in shown._repr_html_()
    assert drawn == [
        *("QuantizedModel", "Graph", "Planned", "SimulationResult", "Contributions", "Selection"),
        *("SimulationResult", "Changes", "Generated"),
    ]
    assert "bytes of SRAM" in capsys.readouterr().out  # the error of the last cell
    assert (tmp_path / "trained.tflite").is_file()
    assert (tmp_path / "project" / "manifest.json").is_file()


@pytest.mark.slow
def test_an_own_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, (loss, _, labels), changed, gradients, curve, rules, is_same = shown_values("own-loop")
    assert loss > 0
    assert len(labels) == 16
    assert changed["head/weight.new"] > 0
    assert set(gradients) <= set(changed)
    assert curve[-1][1] > 0.6 > max(share for _, share in curve[:-1])  # it stopped there
    assert [rule for rule, _, _ in rules] == ["sgd", "momentum", "rmsprop"]
    assert min(rules, key=lambda row: row[1])[0] == "sgd"
    assert is_same


@pytest.mark.slow
def test_the_reference_names_everything_and_its_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert set(mcutrain.__all__) <= named
    demo.copy_files(tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    first, second, own_loop, third = re.findall(
        r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    executed(first, names, "docs/python.md")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["<Planned", "<SimulationResult", "<Changes"]
    executed(second, names, "docs/python.md")
    said = re.search(r"# (\d+ \d+)$", second, re.MULTILINE)
    assert said is not None
    assert capsys.readouterr().out.splitlines()[0] == said[1]
    assert (tmp_path / "project" / "src" / "mct_model.c").is_file()
    executed(own_loop, names, "docs/python.md")
    assert (tmp_path / "own.state").is_file()
    assert "dict_keys" in capsys.readouterr().out
    executed(third, names, "docs/python.md")
    assert capsys.readouterr().out == "True\n"
    learnt = mcutrain.diff("demo/fashion.int8.tflite", "learnt.tflite")
    assert any(row["differing"] for row in learnt.records())
