"""Objects that are kept: found again exactly when the compiler would make the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcutrain_host import toolchain
from mcutrain_host.errors import BuildError
from mcutrain_host.includes import missing, needed
from mcutrain_host.objects import KeptObjects, kept_objects, put, take

FILES = {
    "app/main.c": '#include "k.h"\n#include <string.h>\n',
    "src/k.c": '#include "k.h"\nint k(void) { return K; }\n',
    "src/k.h": '#define K 3\n#include "more.h"\n',
    "src/more.h": "#include <stdint.h>\n",
    "lib/string.h": "void *memcpy(void *, const void *, unsigned);\n",
    "chip/other.h": "#define OTHER 1\n",
    "build/left.h": "#define LEFT 1\n",
}
COMMAND = ("cc",)
FOLDERS = ("src", "lib")
FLAGS = ("-O3", "-std=c11")
asked_version = toolchain.compiler_version


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of its own, and no compiler is asked for its version."""
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "compiler_version", lambda command: f"version of {command}")


def project(folder: Path, **changes: str) -> Path:
    for name, text in {**FILES, **changes}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def place(folder: Path, source: str = "src/k.c", dirs: tuple[str, ...] = FOLDERS) -> Path | None:
    return kept_objects(folder, COMMAND, dirs).place(FLAGS, source)


def test_what_is_included_is_followed_in_quotes_and_brackets() -> None:
    units = needed(FILES)
    assert units["src/k.c"] == ("src/k.c", "src/k.h", "src/more.h")
    assert units["app/main.c"] == ("app/main.c", "lib/string.h", "src/k.h", "src/more.h")
    assert missing(units["app/main.c"], FILES) == []


def test_another_project_with_the_same_files_has_the_same_object(tmp_path: Path) -> None:
    other = project(tmp_path / "b", **{"chip/other.h": "", "build/left.h": "", "app/main.c": ""})
    assert place(project(tmp_path / "a")) == place(other)


@pytest.mark.parametrize("name", ["src/k.c", "src/k.h", "src/more.h"])
def test_each_file_of_a_unit_decides(tmp_path: Path, name: str) -> None:
    changed = project(tmp_path / "b", **{name: FILES[name] + "\n"})
    assert place(project(tmp_path / "a")) != place(changed)


def test_headers_in_brackets_that_the_project_has_decide(tmp_path: Path) -> None:
    changed = project(tmp_path / "b", **{"lib/string.h": "\n"})
    first = project(tmp_path / "a")
    assert place(first, "app/main.c") != place(changed, "app/main.c")
    assert place(first, "src/k.c") == place(changed, "src/k.c")


def test_only_folders_that_are_searched_with_success_decide(tmp_path: Path) -> None:
    folder = project(tmp_path)
    assert place(folder, dirs=("src", "lib", "chip")) == place(folder)
    assert place(folder, dirs=("lib", "src")) == place(folder)
    assert place(folder, dirs=("lib",)) != place(folder)
    assert place(folder, "app/main.c", ("lib", "src")) != place(folder, "app/main.c")


def test_compiler_flags_and_processor_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_objects(project(tmp_path), COMMAND, FOLDERS)
    places = {kept.place(flags, "src/k.c") for flags in (FLAGS, FLAGS[:1], FLAGS[::-1])}
    places.add(kept_objects(tmp_path, ("gcc",), FOLDERS).place(FLAGS, "src/k.c"))
    monkeypatch.setattr(toolchain, "compiler_version", lambda command: "newer")
    places.add(place(tmp_path))
    monkeypatch.setattr(toolchain, "processor", lambda: "another")
    places.add(place(tmp_path))
    assert len(places) == 6


def test_zigs_version_decides_and_not_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """compiler_version is clang's; two zigs may have the same."""
    monkeypatch.setattr(toolchain, "compiler_version", lambda command: "clang version 22.1.8")
    folder, places = project(tmp_path), []
    for environment, version in (("a", "0.17.0"), ("b", "0.17.0"), ("b", "0.17.1")):
        zig = (f"/{environment}/ziglang/zig", "cc")
        monkeypatch.setattr(toolchain, "ZIG", zig)
        monkeypatch.setattr("importlib.metadata.version", {"ziglang": version}.__getitem__)
        places.append(kept_objects(folder, zig, FOLDERS).place(FLAGS, "src/k.c"))
    assert places[0] == places[1] != places[2]


CONFIG = """#ifndef CONFIG_H
#define MCT_NAME "x"
#define MCT_SIZE 8
#define MCT_HALF (MCT_SIZE / 2)
#define MCT_USB
#endif
"""
READS = '#include "mct_board_config.h"\nint k = MCT_HALF;%s\n'


@pytest.mark.parametrize(
    ("line", "other", "more", "alike"),
    [
        ('#define MCT_NAME "x"', '#define MCT_NAME "of another"', "", True),
        ('#define MCT_NAME "x"\n', "", "", True),
        ("#define MCT_USB", "#define MCT_UART", "", True),
        ("#define MCT_USB", "#define MCT_USB 1", "", True),
        ("#define MCT_HALF", "#define MCT_HALF 1 +", "", False),
        ("#define MCT_SIZE 8", "#define MCT_SIZE 9", "", False),
        ("#define MCT_USB\n", "", "\n#ifdef MCT_USB\n#endif", False),
        ("#define MCT_USB", "#define MCT_USB /* open", "", False),
        ("#define MCT_USB", "#define MCT_USB */ int z;", "", False),
        ("#define MCT_USB", "#define MCT_USB 1 \\", "", False),
        ("#define MCT_USB", "#define MCT_USB 1 ??/", "", False),
        ("#define MCT_USB", "#define MCT_USB()", "", False),
        ("#define MCT_USB", "#define int long", "", False),
        ("#define MCT_USB", "#define MCT_UART", "\n#define J(a) MCT_##a", False),
        ("#define MCT_USB", "#define MCT_UART", "\n#define J(a) MCT_%:%:a", False),
        ("#endif", "#define MCT_USB 2\n#endif", "", False),
    ],
)
def test_of_a_boards_macros_only_those_that_are_named_decide(
    tmp_path: Path, line: str, other: str, more: str, alike: bool
) -> None:
    changes = {"src/k.c": READS % more, "src/mct_board_config.h": CONFIG}
    changed = changes | {"src/mct_board_config.h": CONFIG.replace(line, other, 1)}
    first, second = project(tmp_path / "a", **changes), project(tmp_path / "b", **changed)
    assert line in CONFIG
    assert (place(first) == place(second)) == alike


def test_a_macro_that_a_flag_names_decides_and_so_does_each_of_two_configurations(
    tmp_path: Path,
) -> None:
    names = ("src/mct_board_config.h", "lib/mct_board_config.h")
    flags = ("-DK=MCT_SIZE",)

    def found(folder: Path) -> list[Path | None]:
        kept = kept_objects(folder, COMMAND, FOLDERS)
        return [kept.place(given, "src/k.c") for given in (FLAGS, flags)]

    one = {names[0]: "#define MCT_SIZE 8\n", "src/k.c": READS % ""}
    first = found(project(tmp_path / "a", **one))
    second = found(project(tmp_path / "b", **one | {names[0]: "#define MCT_SIZE 9\n"}))
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False]
    places = set()
    for name in names:
        for number in (8, 9):
            texts = dict.fromkeys(names, "int z;\n") | {name: CONFIG.replace("8", str(number))}
            folder = project(tmp_path / name[:3] / str(number), **one | texts)
            places.add(found(folder)[0])
    assert len(places) == 4


@pytest.mark.parametrize("text", ['#include "../far.h"\n', '# include "gone.h"\n'])
def test_what_includes_a_file_from_elsewhere_is_not_kept(tmp_path: Path, text: str) -> None:
    folder = project(tmp_path / "a", **{"src/more.h": text})
    (tmp_path / "far.h").touch()
    assert place(folder) is None
    assert place(folder, "absent.c") is None


def test_a_file_that_is_included_if_it_is_there_decides(tmp_path: Path) -> None:
    text = '#if __has_include("own.h")\n#include "own.h"\n#endif\n'
    without = place(project(tmp_path / "a", **{"src/more.h": text}))
    having = place(project(tmp_path / "b", **{"src/more.h": text, "src/own.h": "\n"}))
    assert without is not None
    assert having is not None
    assert without != having


def test_without_a_version_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "compiler_version", asked_version)
    kept = kept_objects(project(tmp_path), (str(tmp_path / "gone"),), FOLDERS)
    assert kept == KeptObjects(None, (), {}, {})
    with pytest.raises(BuildError, match="does not run"):
        toolchain.compiler_version((str(tmp_path / "gone"),))


def test_what_was_put_is_taken_and_damage_is_not(tmp_path: Path) -> None:
    where, made, target = place(project(tmp_path)), tmp_path / "made.o", tmp_path / "target.o"
    assert where is not None
    made.write_bytes(b"code" * 9)
    assert not take(where, target)
    put(where, made)
    assert take(where, target)
    assert target.read_bytes() == made.read_bytes()
    where.write_bytes(where.read_bytes().replace(b"c", b"d", 1))
    assert not take(where, target)
    assert not take(None, target)


def test_a_cache_that_cannot_be_written_stops_no_build(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be", encoding="utf-8")
    made = tmp_path / "made.o"
    made.write_bytes(b"code")
    where = place(project(tmp_path / "a"))
    put(where, made)
    assert not take(where, made)
