"""The TFLite interpreter of mcutrain.oracle.tflite, or a reason to skip."""

import pytest

from mcutrain.oracle.tflite import as_installed, find_interpreter, run_reference

__all__ = ["PACKAGE", "ROUNDS_ONCE", "as_installed", "needs_interpreter", "run_reference"]

_found = find_interpreter()
PACKAGE = _found.package if _found else ""
ROUNDS_ONCE = _found is not None and _found.rounds_once

needs_interpreter = pytest.mark.skipif(
    _found is None, reason="neither ai-edge-litert nor tflite-runtime is installed"
)
