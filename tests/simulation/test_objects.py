"""Objects that are kept: what they depend on, and that splitting the constants loses nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from mcutrain_host.includes import needed
from mcutrain_host.toolchain import ZIG

from mcutrain.codegen import generate
from mcutrain.errors import BuildError
from mcutrain.simulation import find_compiler, objects
from mcutrain.simulation.objects import (
    CONSTANTS,
    ObjectCompiler,
    link,
    one_unit,
    split_constants,
)
from tests.simulation import networks

MODEL = {"mct_model.c": "int model(void) { return 0; }\n"}
KERNEL = {
    "kernels/k.c": '#include "k.h"\nint k(void) { return K; }\n',
    "kernels/k.h": '#include "more.inc"\n',
    "kernels/more.inc": "#define K 3\n",
    "runtime/other.h": "#define OTHER 1\n",
}


@pytest.fixture
def tools(tmp_path: Path) -> ObjectCompiler:
    return ObjectCompiler(find_compiler().command, ("-std=c11", "-O1"), "test", tmp_path / "cache")


def kept(tools: ObjectCompiler) -> set[str]:
    return {path.name for path in (tools.cache / "objects").glob("*")}


def build(folder: Path, files: dict[str, str], tools: ObjectCompiler) -> Path:
    folder.mkdir()
    return link(folder, files, tools)


def test_includes_are_followed() -> None:
    assert needed({**KERNEL, **MODEL}) == {
        "kernels/k.c": ("kernels/k.c", "kernels/k.h", "kernels/more.inc"),
        "mct_model.c": ("mct_model.c",),
    }


def test_what_depends_on_the_model_is_compiled_as_one() -> None:
    files = {**KERNEL, **MODEL, "host/h.c": '#include "mct_model.h"\n', "mct_model.h": ""}
    more, units = one_unit(files, needed(files))
    assert set(units) == {"kernels/k.c", "mct_unit.c"}
    assert set(units["mct_unit.c"]) == {"mct_unit.c", "mct_model.c", "mct_model.h", "host/h.c"}
    assert more["mct_unit.c"] == '#include "host/h.c"\n#include "mct_model.c"\n'


def test_an_object_is_made_once_and_again_when_a_header_changes(
    tools: ObjectCompiler, tmp_path: Path
) -> None:
    build(tmp_path / "a", {**KERNEL, **MODEL}, tools)
    first = kept(tools)
    assert len(first) == 1  # of the kernel; the model's own is not kept
    build(tmp_path / "b", {**KERNEL, **MODEL, "runtime/other.h": "#define OTHER 2\n"}, tools)
    assert kept(tools) == first
    build(tmp_path / "c", {**KERNEL, **MODEL, "kernels/more.inc": "#define K 4\n"}, tools)
    assert len(kept(tools)) == 2


def test_other_flags_or_another_compiler_have_objects_of_their_own(
    tools: ObjectCompiler, tmp_path: Path
) -> None:
    build(tmp_path / "a", KERNEL, tools)
    build(tmp_path / "b", KERNEL, replace(tools, identity="another"))
    build(tmp_path / "c", KERNEL, replace(tools, flags=("-std=c11", "-O2")))
    assert len(kept(tools)) == 3


def test_an_error_names_the_compiler_and_keeps_nothing(
    tools: ObjectCompiler, tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match=r"refused the generated C: .*error"):
        build(tmp_path / "a", {"kernels/k.c": "int k(void) { return }\n"}, tools)
    assert kept(tools) == set()


def with_vectors(count: int) -> dict[str, str]:
    files = {
        "isa/mct_simd.h": "#ifndef V\n#define V\nstatic inline int v(void) { return 3; }\n#endif\n"
    }
    for number in range(count):
        files[f"kernels/k{number}.c"] = (
            f'#include "mct_simd.h"\nint k{number}(void) {{ return v(); }}\n'
        )
    return files


def headers_precompiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that are from now on, by name, whether the compiler can or not."""
    names: list[str] = []
    run = objects.run

    def noting(tools: ObjectCompiler, arguments: Sequence[str], folder: Path) -> None:
        if "c-header" in arguments:
            names.append(arguments[-1])
        run(tools, arguments, folder)

    monkeypatch.setattr(objects, "run", noting)
    return names


@pytest.mark.slow
def test_many_files_with_vectors_share_a_precompiled_header_and_are_the_same(
    c_compilers: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = headers_precompiled(monkeypatch)
    for number, command in enumerate(c_compilers):
        kinds = [tmp_path / f"{name} {number}" for name in ("plain", "quick")]
        plain, quick = (ObjectCompiler(command, ("-O3",), "test", cache) for cache in kinds)
        monkeypatch.setattr(objects, "WORTH_PRECOMPILING", 9)
        build(tmp_path / f"a{number}", with_vectors(8), plain)
        assert found == []
        monkeypatch.setattr(objects, "WORTH_PRECOMPILING", 8)
        build(tmp_path / f"b{number}", with_vectors(8), quick)
        assert found == ([] if command == ZIG else ["isa/mct_simd.h"])
        found.clear()
        assert kept(plain) == kept(quick)
        assert len(kept(quick)) == 8
        if command != ZIG:  # its objects name their folder
            for name in kept(quick):
                same = [(cache / "objects" / name).read_bytes() for cache in kinds]
                assert same[0] == same[1]


def test_what_is_kept_is_worth_no_precompiling(
    tools: ObjectCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "a", with_vectors(8), tools)
    found = headers_precompiled(monkeypatch)
    build(tmp_path / "b", with_vectors(9), tools)
    assert found == []
    assert len(kept(tools)) == 9


def test_a_header_that_cannot_be_compiled_is_said_as_before(
    tools: ObjectCompiler, tmp_path: Path
) -> None:
    files = {**with_vectors(8), "isa/mct_simd.h": "int v(void) { return }\n"}
    with pytest.raises(BuildError, match=r"refused the generated C: .*mct_simd.h.*error"):
        build(tmp_path / "a", files, tools)
    assert kept(tools) == set()


def test_splitting_the_constants_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "KEPT_CHARACTERS", 200)
    plan = networks.planned(networks.training_graph(networks.residual_network()))
    files = dict(generate(plan, "full").files)
    split = split_constants(files)
    texts = [text for name, text in split.items() if name.startswith("constants/")]
    assert texts
    definition = re.compile(r"^const \w+ \w+\[\d+\] = \{[^}]*\};", re.MULTILINE)
    before = sorted(definition.findall(files[CONSTANTS]))
    after = [d for text in (*texts, split[CONSTANTS]) for d in definition.findall(text)]
    assert sorted(after) == before
