"""A command imports what it needs: the rest costs every call half a second."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mcutrain.demo import MODEL

READERS = {"mcutrain.data._reading", "mcutrain.frontends"}
LARGE = {
    *("mcutrain.autodiff", "mcutrain.codegen", "mcutrain.pipeline", "mcutrain.simulation"),
    *("jinja2", "joblib", "mcutrain.memplan", "onnx", "pydantic", "scipy"),
    "rich.progress",
}
OF_OTHERS = {
    *("jinja2", "joblib", "onnx", "pydantic", "scipy", "elftools", "mcutrain.quant.quantizer"),
    *("email", "importlib.metadata", "rich.progress"),
    *("mcutrain.analysis", "mcutrain.experiments", "mcutrain.functions.chooser"),
    *("mcutrain.simulation", "mcutrain.proxies", "mcutrain.trained", *READERS),
    *("mcutrain.functions.board_options", "mcutrain.functions.quantize_options"),
    "mcutrain_host.protocol",
}
"""What a plan of a scheme that was named does without."""
ASK = """
import sys
from mcutrain.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("line", "left_out", "most"),
    [
        (["--version"], LARGE | {"mcutrain.quant", "numpy"}, 30),
        (["--help"], LARGE | {"mcutrain.quant", "numpy", "PIL", "serial"}, 100),
        (["info", "--help"], LARGE | {"mcutrain.quant", "numpy", "mcutrain.functions.options"}, 40),
        (["info", str(MODEL)], LARGE | READERS | {"mcutrain.quant.quantizer", "email"}, 190),
        (["plan", str(MODEL), "--scheme", "head", "--board", "rpi-pico"], OF_OTHERS, 330),
    ],
    ids=["version", "help", "help of one", "info", "plan"],
)
def test_a_command_does_not_import_what_others_need(
    line: list[str], left_out: set[str], most: int
) -> None:
    """A time would depend on what else the machine does. most: modules of ours, some in reserve."""
    imported = modules(ASK, *line)
    assert "mcutrain.cli.commands" in imported
    assert not left_out & imported
    assert len([name for name in imported if name.startswith("mcutrain")]) <= most


def test_a_run_imports_neither_scipy_nor_what_reads_elf_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    samples = {"x": rng.random((60, 28, 28, 1), np.float32), "y": np.arange(60) % 10}
    np.savez(tmp_path / "data.npz", **samples)  # type: ignore[arg-type]
    flags = ["--data", str(tmp_path / "data.npz"), "--scheme", "head", "--epochs", "1"]
    imported = modules(ASK, "simulate", str(MODEL), *flags)
    assert "mcutrain.simulation.run" in imported
    assert not {"scipy", "elftools", "onnx"} & imported


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simulating", "board_training", "planning", "generating"])
def test_what_solves_selections_is_imported_where_it_is_asked(name: str) -> None:
    """It takes as long to import as all the rest."""
    imported = modules(
        f"import sys, mcutrain.functions.{name}; print(*sys.modules, file=sys.stderr)"
    )
    assert f"mcutrain.functions.{name}" in imported
    assert not [module for module in imported if module.startswith("scipy")]


def modules(program: str, *arguments: str) -> set[str]:
    """What a program has imported, which it prints as its last line of errors."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())
