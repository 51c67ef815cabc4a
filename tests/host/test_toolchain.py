"""The compiler of this computer, whatever the environment and the compiler say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mcutrain_host import build
from mcutrain_host.errors import BuildError
from mcutrain_host.toolchain import compiler_version, find_host_compiler, shared_library

from mcutrain import errors
from mcutrain.simulation import objects


@pytest.mark.parametrize("chosen", ['gcc "-O3', "'", " "])
def test_a_cc_that_is_no_command_is_a_sentence(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", chosen)
    with pytest.raises(BuildError, match=r"CC is .*, which is no command"):
        find_host_compiler()


@pytest.fixture
def mumbling(tmp_path: Path) -> Path:
    """A compiler that refuses everything in Latin-1."""
    script = tmp_path / "cc"
    script.write_bytes(
        b"#!/bin/sh\nprintf 'error: Gr\\337e\\n' | tee /dev/stderr\n[ \"$*\" = --version ]\n"
    )
    script.chmod(0o755)
    return script


def test_what_a_compiler_says_need_not_be_utf_8(
    mumbling: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.c"
    source.write_text("int a;\n")
    assert compiler_version((str(mumbling),)).startswith("error: Gr")
    monkeypatch.setenv("CC", str(mumbling))
    tools = objects.ObjectCompiler((str(mumbling),), (), "", tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: shared_library(source),
        lambda: build._run([str(mumbling), "a.c"], tmp_path, "a.c"),
        lambda: objects.run(tools, ["a.c"], tmp_path),
    ]
    for call in calls:
        with pytest.raises((BuildError, errors.BuildError), match=r"error: Gr.e$"):
            call()
