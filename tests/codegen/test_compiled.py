"""What tests compile once: an object is kept by all that decides it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mcutrain_host.objects import put

from tests import compiled
from tests.compiled import Compilation, Texts, linked, make, objects

MAKEFILE = "libx.a: src/main.o\n\t$(AR) rcs $@ $^\n\nsrc/main.o: src/main.c\n"
RULE = "\t$(CC) $(CFLAGS) -c -o $@ $<\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, and an empty cache."""
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "cache"))
    if not (shutil.which("gcc") and shutil.which("make")):
        pytest.skip("no gcc or no make: apt install gcc make")
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.c").write_text('#include "a.h"\nint number(void) { return A; }\n')
    (made / "src" / "a.h").write_text('#include "b.h"\n#define A B\n')
    (made / "src" / "b.h").write_text("#define B 7\n")
    (made / "Makefile").write_text(MAKEFILE + RULE)
    return made


def place(folder: Path, *flags: str, elsewhere: Path | None = None) -> Path | None:
    texts = Texts.of(folder, *([elsewhere] if elsewhere else []))
    return texts.place(Compilation(("gcc", *flags), "src/main.c"))


def test_a_name_changes_with_flags_and_every_text_that_is_included(folder: Path) -> None:
    first = place(folder, "-O1")
    (folder / "src" / "c.h").write_text("#define C 3\n")
    assert place(folder, "-O1") == first is not None
    assert place(folder, "-O2") != first
    (folder / "src" / "b.h").write_text("#define B 2\n")
    assert place(folder, "-O1") != first


def test_what_includes_or_searches_unknown_files_is_not_kept(folder: Path, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.mkdir()
    assert place(folder, f"-I{headers}") is None
    assert place(folder, f"-I{headers}", elsewhere=headers) is not None
    (folder / "src" / "b.h").write_text('#include "elsewhere.h"\n')
    assert place(folder, "-O1") is None


def test_make_takes_what_is_kept_and_keeps_what_it_compiles(folder: Path) -> None:
    arguments = ("CC=gcc", "CFLAGS=-O1")
    assert "gcc -O1 -c -o src/main.o src/main.c" in make(folder, *arguments)
    kept = place(folder, "-O1", "-c")
    assert kept is not None
    assert kept.read_bytes().startswith((folder / "src" / "main.o").read_bytes())
    other = folder / "other.o"
    other.write_bytes(b"another object")
    put(kept, other)
    (folder / "libx.a").unlink()
    (folder / "src" / "main.o").unlink()
    make(folder, *arguments)
    assert (folder / "src" / "main.o").read_bytes() == b"another object"


def test_a_warning_fails_and_is_not_kept(folder: Path) -> None:
    (folder / "src" / "main.c").write_text("int number(void) { int unused; return 1; }\n")
    for _ in range(2):
        with pytest.raises(AssertionError, match="unused"):
            objects(["gcc", "-Wall"], folder, ["src/main.c"])


def test_a_program_is_linked_once_unless_something_that_decides_it_is_another(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag, a source, a header beside it or in a folder that is searched, another file."""
    calls: list[list[str]] = []
    own = compiled.subprocess.run

    def run(command: list[str], *more: object, **how: object) -> object:
        calls.append(command) if "-o" in command else None
        return own(command, *more, **how)

    headers, script = tmp_path / "headers", tmp_path / "more.ld"
    headers.mkdir()
    script.write_text("/* nothing */")
    (headers / "deep").mkdir()
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    (folder / "a.h").write_text("")
    monkeypatch.setattr(compiled.subprocess, "run", run)
    command = ["gcc", f"-I{headers}", "main.c", script]

    def calls_of(*flags: object) -> int:
        calls.clear()
        made = linked([*command, *flags, "-o", tmp_path / f"{len(flags)}"], folder)
        assert own([made]).returncode == 0
        return len(calls)

    assert [calls_of(), calls_of(), calls_of("-O1"), calls_of("-O1")] == [1, 0, 1, 0]
    for place, text in (
        (folder / "main.c", "int main(void) { return 1 - 1; }\n"),
        (folder / "a.h", "int x;\n"),
        (headers / "deep" / "b.h", "int y;\n"),
        (script, "/* nothing more */"),
    ):
        place.write_text(text)
        assert [calls_of(), calls_of()] == [1, 0], place
