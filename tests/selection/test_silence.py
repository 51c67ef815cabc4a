"""Standard output while a C library is silenced."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest

from mcutrain.selection.silence import silenced_stdout

C = ctypes.CDLL(None)


def test_only_what_c_prints_meanwhile_is_lost(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps back what is printed, as it does before a pipe."""
    with open(1, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        print("before")
        with silenced_stdout():
            C.printf(b"meanwhile, kept back\n")
            os.write(1, b"meanwhile, at once\n")
        os.write(1, b"after\n")
        C.fflush(None)
        assert capfd.readouterr().out == "before\nafter\n"


def test_an_error_meanwhile_gives_the_output_back(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), silenced_stdout():
        raise ValueError("no")
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"
