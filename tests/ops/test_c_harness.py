"""Compiled kernels are found again exactly when the compiler would make the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.ops import c_harness
from tests.ops.c_harness import FIRMWARE, HARNESS, Toolchain
from tests.ops.drawing import WORD, Outline, SeededSource

Compiled = list[tuple[str, ...]]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiled:
    """The compiler's arguments: none is called. The cache is the test's own."""
    calls: Compiled = []

    def note(self: Toolchain, *arguments: str) -> None:
        calls.append(arguments)
        (self.folder / arguments[arguments.index("-o") + 1]).write_bytes(b"object")

    monkeypatch.setattr(Toolchain, "compile", note)
    monkeypatch.setattr(
        "mcutrain_host.toolchain.compiler_version", lambda command: f"version of {command}"
    )
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "cache"))
    return calls


def toolchain(folder: Path) -> Toolchain:
    folder.mkdir()
    return Toolchain(("cc",), ("-O1",), folder)


def test_an_object_is_compiled_once(compiled: Compiled, tmp_path: Path) -> None:
    for name in ("a", "b"):
        toolchain(tmp_path / name).compile_objects([HARNESS])
    assert len(compiled) == 1
    assert (tmp_path / "b" / "harness.o").read_bytes().startswith(b"object")


@pytest.mark.parametrize("what", ["command", "flags", "version", "processor", "headers", "source"])
def test_whatever_decides_an_object_has_it_compiled_anew(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    source = tmp_path / "harness.c"
    text = '#include "mct_update.h"\n'
    source.write_text(text)
    first = toolchain(tmp_path / "a")
    first.compile_objects([source])
    second = toolchain(tmp_path / "b")
    if what == "command":
        second = replace(second, command=("gcc",))
    elif what == "flags":
        second = replace(second, flags=("-O2",))
    elif what == "source":
        source.write_text(text + "int y;\n")
    elif what == "version":
        monkeypatch.setattr("mcutrain_host.toolchain.compiler_version", lambda command: "another")
    elif what == "processor":
        monkeypatch.setattr("mcutrain_host.toolchain.processor", lambda: "another")
    else:
        change_header(monkeypatch, "runtime/mct_types.h")  # which mct_update.h includes
    second.compile_objects([source])
    assert len(compiled) == 2


def change_header(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    read = c_harness.headers()
    monkeypatch.setattr(c_harness, "headers", lambda: {**read, name: read[name] + "int z;\n"})
    c_harness._with_headers.cache_clear()


def test_a_header_that_a_file_does_not_include_decides_nothing(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain(tmp_path / "a").compile_objects([HARNESS])
    change_header(monkeypatch, "runtime/mct_types.h")
    toolchain(tmp_path / "b").compile_objects([HARNESS])
    assert len(compiled) == 1


def test_calls_of_many_samples_are_compiled_once_for_all_processes(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, compilations in ((c_harness.WORTH_KEEPING, 1), (1, 2)):
        compiled.clear()
        for name in "ab":
            monkeypatch.setattr(c_harness, "_CALLS", {})
            made = toolchain(tmp_path / f"{count}{name}")
            (made.folder / "run").mkdir()
            place = made._calls("static void call_0(void) {}\n" * count)
            assert place.read_bytes().startswith(b"object")
        assert len(compiled) == compilations


def test_many_host_bodies_share_a_precompiled_header(compiled: Compiled, tmp_path: Path) -> None:
    bodies = sorted(FIRMWARE.glob("kernels/*/host/*.c"))
    few, many = (toolchain(tmp_path / name) for name in ("few", "many"))
    few.compile_objects(bodies[:1])
    assert compiled == [(str(bodies[0]), "-c", "-o", str(few.folder / f"{bodies[0].stem}.o"))]
    many.compile_objects([*bodies, HARNESS])
    assert compiled[1] == ("-x", "c-header", "mct_simd.h", "-o", "mct_simd.h.gch")
    included = [call for call in compiled if call[:2] == ("-include", "mct_simd.h")]
    assert {Path(call[2]) for call in included} == set(bodies[1:])


def test_a_header_that_flags_include_is_of_bodies_alone_and_decides(
    compiled: Compiled, tmp_path: Path
) -> None:
    body, header = next(FIRMWARE.glob("kernels/*/host/*.c")), tmp_path / "first.h"
    flag = f"{c_harness.INCLUDE}{header}"
    for count, text in enumerate(("int a;\n", "int a;\n", "int b;\n")):
        header.write_text(text)
        made = toolchain(tmp_path / str(count))
        made = replace(made, flags=(*made.flags, flag))
        assert made.included == (flag,)
        made.compile_objects([body])
    assert len(compiled) == 2


def test_a_seeded_source_draws_what_numpys_generator_does() -> None:
    """Counts just above half of all words are where most words are drawn again."""
    counts = (1, 2, 3, 10, 1_000, 2**31 - 1, 2**31, 2**31 + 1, 3 * 2**30, WORD - 1, WORD)
    for seed in range(20):
        ours, numpys = SeededSource(seed), np.random.default_rng(seed)
        for low, count in ((7 * i - 300, counts[i % len(counts)]) for i in range(200)):
            wanted = int(numpys.integers(low, low + count - 1, endpoint=True))
            assert ours.integer(low, low + count - 1) == wanted


def test_an_outline_draws_the_same_but_for_arrays() -> None:
    ours, outline = SeededSource(1), Outline(1)
    first = ours.array((2, 3), "int16", 5, 9)
    assert outline.array((2, 3), "int16", 5, 9).tolist() == [[5] * 3] * 2
    assert first.dtype == np.int16
    assert [ours.integer(0, 99) for _ in range(9)] == [outline.integer(0, 99) for _ in range(9)]
