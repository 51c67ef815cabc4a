"""A command imports what it needs: the rest costs every call half a second."""

import subprocess
import sys

import pytest

from mcutrain.demo import MODEL

READERS = {"mcutrain.data._reading", "mcutrain.frontends"}
LARGE = {
    *("mcutrain.autodiff", "mcutrain.codegen", "mcutrain.pipeline", "mcutrain.simulation"),
    *("jinja2", "joblib", "mcutrain.memplan", "onnx", "pydantic", "scipy"),
}
OF_OTHERS = {
    *("jinja2", "joblib", "onnx", "pydantic", "scipy", "elftools", "mcutrain.quant.quantizer"),
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
    ("line", "left_out"),
    [
        (["--version"], LARGE | {"mcutrain.quant", "numpy"}),
        (["--help"], LARGE | {"mcutrain.quant", "numpy", "PIL", "serial"}),
        (["info", "--help"], LARGE | {"mcutrain.quant", "numpy", "mcutrain.functions.options"}),
        (["info", str(MODEL)], LARGE | READERS | {"mcutrain.quant.quantizer"}),
        (["plan", str(MODEL), "--scheme", "head", "--board", "rpi-pico"], OF_OTHERS),
    ],
    ids=["version", "help", "help of one", "info", "plan"],
)
def test_a_command_does_not_import_what_others_need(line: list[str], left_out: set[str]) -> None:
    """A time would depend on what else the machine does."""
    imported = modules(ASK, *line)
    assert "mcutrain.cli.commands" in imported
    assert not left_out & imported


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
