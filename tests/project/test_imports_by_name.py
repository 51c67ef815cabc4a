"""The contract of layers does not see what is loaded by name, so nothing of ours is."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcutrain import shown
from mcutrain.shown import Record, Shown

ROOT = Path(__file__).parents[2]
LOADERS = ("import_module", "__import__", "find_spec", "run_module")
OURS = "mcutrain"


def loaded_by_name(text: str) -> Iterator[str]:
    """Names of our own modules, or how they begin, that a text of Python gives to a loader."""
    if not any(loader in text for loader in LOADERS):
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in LOADERS:
            continue
        first: ast.expr = node.args[0]
        if isinstance(first, ast.JoinedStr) and first.values:
            first = first.values[0]
        if isinstance(first, ast.Constant) and str(first.value).startswith((OURS, ".")):
            yield str(first.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('import_module("mcutrain.report.notebook")', ["mcutrain.report.notebook"]),
        ('importlib.import_module(f"mcutrain.{x}")', ["mcutrain."]),
        ('__import__("mcutrain_host.link")', ["mcutrain_host.link"]),
        ('import_module(".notebook", "mcutrain.report")', [".notebook"]),
        ('import_module("pandas")', []),
    ],
)
def test_loads_by_name_are_found(text: str, names: list[str]) -> None:
    assert list(loaded_by_name(text)) == names


def test_no_module_loads_another_of_ours_by_name_but_the_command_line_its_commands() -> None:
    files = [*(ROOT / "mcutrain").rglob("*.py"), *(ROOT / "host").rglob("*.py")]
    assert len(files) > 300
    found = {
        str(file.relative_to(ROOT)): names
        for file in files
        if (names := list(loaded_by_name(file.read_text(encoding="utf-8"))))
    }
    assert found == {"mcutrain/cli/commands.py": ["mcutrain.cli."]}  # its own layer, when called


def test_results_are_drawn_by_whoever_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Two(Shown):
        def summary(self) -> str:
            return "1 < 2"

        def records(self) -> list[Record]:
            return [{"a": 1}]

    assert "<b>Two</b>" in Two()._repr_html_()  # by the report
    monkeypatch.setattr(shown, "_drawers", [])
    assert Two()._repr_html_() == "<pre>&lt;Two: 1 &lt; 2&gt;</pre>"
    shown.drawn_by(lambda result: f"drawn {result.summary()}")
    assert Two()._repr_html_() == "drawn 1 < 2"


def test_a_report_is_loaded_when_a_result_is_shown() -> None:
    code = (
        "import sys, mcutrain, mcutrain.pipeline\n"
        "assert 'mcutrain.report' not in sys.modules\n"
        "from mcutrain.demo import network\n"
        "assert 'arena' in mcutrain.prepare(network())._repr_html_()\n"
        "assert 'mcutrain.report.notebook' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
