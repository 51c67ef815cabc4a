"""The generated project: its text, its bytes, how it is written, how it builds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.errors import ProjectError
from mcutrain_host.manifest import FILE, BoardProject, Manifest

from mcutrain.autodiff import TrainOptions, differentiate
from mcutrain.codegen import Project, generate
from mcutrain.errors import McutrainError
from mcutrain.ir.graph import Graph
from mcutrain.ir.op import ParameterUpdate
from mcutrain.memplan import TrainingPlan
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator, build
from mcutrain.sparse import UpdateScheme
from mcutrain.target import FIRMWARE, board_names, load_target
from tests.autodiff.test_structure import renamed
from tests.simulation.networks import (
    Network,
    planned,
    rates,
    residual_network,
    same,
    samples,
    states_differ,
    training_graph,
)

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("golden")
WRITE_GOLDEN = "MCUTRAIN_WRITE_GOLDEN"
GENERATED = (
    *(
        f"src/mct_{name}"
        for name in ("model.h", "model.c", "tables.h", "constants.h", "constants.c", "isa.h")
    ),
    "CMakeLists.txt",
    "Makefile",
    "example/main.c",
    "library.properties",
)
MORE = ("graph.txt", "plan.csv", "manifest.json")
QUICK = ("-O0",)


def tiny() -> Graph:
    """Small enough to read all that is generated for it."""
    net = Network((4, 4, 1), seed=5)
    y = net.conv(net.x, 2, same(3, 2), relu=True)
    return net.graph(net.conv(net.mean(y), 2, rounds_once=True), "tiny")


def plan_of(graph: Graph, scheme: UpdateScheme | None = None) -> TrainingPlan:
    return planned(training_graph(graph, scheme or UpdateScheme("last:1", 1, {}, 1)))


def project() -> Project:
    return generate(plan_of(tiny()), "last:1")


def without_version(text: str) -> str:
    text = re.sub(r"MCT_VERSION != \d+", "MCT_VERSION != NUMBER", text)
    return re.sub(r"mcutrain \d+\.\d+[\w.+]*", "mcutrain VERSION", text)


@pytest.mark.parametrize("name", [*GENERATED, *MORE])
def test_the_generated_example_is_the_golden_text(name: str) -> None:
    """MCUTRAIN_WRITE_GOLDEN=1 writes it anew; look at the diff."""
    text, path = without_version(project().files[name]), GOLDEN / Path(name).name
    if os.environ.get(WRITE_GOLDEN):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


PRINT_DIGEST = """
from tests.codegen.test_project import plan_of, residual_network, UpdateScheme, generate
scheme = UpdateScheme("mixed", 3, {"1": 0.5, "2": 0.5, "5": 1.0})
print(generate(plan_of(residual_network(), scheme), "mixed").digest)
"""


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    """Of this process, which is another each time, and of a process with a fixed one."""
    scheme = UpdateScheme("mixed", 3, {"1": 0.5, "2": 0.5, "5": 1.0})
    here = generate(plan_of(residual_network(), scheme), "mixed").digest
    done = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{here}\n"


def test_files_are_sorted_text_without_trailing_blanks() -> None:
    files = project().files
    assert list(files) == sorted(files)
    for name in GENERATED:
        lines = files[name].splitlines()
        if name.endswith((".c", ".h")):
            assert not [line for line in lines if line != line.rstrip()], name
        assert files[name].endswith("\n")
        assert "\r" not in files[name]


def test_only_the_kernels_that_are_called_are_in_the_project() -> None:
    files = generate(plan_of(tiny(), UpdateScheme()), "head").files
    kernels = {path.stem for path in FIRMWARE.glob("kernels/*/*.c")}
    program = files["src/mct_model.c"]
    called = set(re.findall(r"^ +(mct_\w+)\(&\w+_params", program, re.MULTILINE))
    assert {Path(name).stem for name in files if name.endswith(".c")} & kernels == called
    assert not [name for name in files if "depthwise" in name or "add" in Path(name).stem]
    assert not [name for name in files if "grad_input" in name and name.endswith(".c")]


def test_the_manifest_tells_the_sizes_that_the_header_tells() -> None:
    files = project().files
    manifest = json.loads(files["manifest.json"])
    header = files["src/mct_model.h"]
    for name, key in (("MCT_ARENA_BYTES", "arena_bytes"), ("MCT_STATE_BYTES", "state_bytes")):
        assert re.search(rf"#define {name} {manifest[key]}$", header, re.MULTILINE)
    assert f"0x{manifest['model_hash']}" in header
    places = [e["offset"] for e in manifest["state"]]
    assert places == sorted(places)
    assert places[:2] == [0, 12]  # the counters, and the first tensor


# ---------------------------------------------------------------------------------------- writing


def test_a_project_is_written_whole_and_again_over_itself(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "project"
    first, second = project(), generate(plan_of(tiny(), UpdateScheme()), "head")
    for written in (first, first, second):
        written.write(folder)
        found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
        assert found == set(written.files)
        assert (folder / "src" / "mct_model.c").read_text() == written.files["src/mct_model.c"]
    assert [p.name for p in folder.parent.iterdir()] == ["project"]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_place_with_other_things_in_it_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "photos"
    keep = place / "holiday.jpg" if kind == "folder" else place
    keep.parent.mkdir(exist_ok=True)
    keep.write_text("precious")
    with pytest.raises(McutrainError, match="is no mcutrain project; give another folder"):
        project().write(place)
    assert keep.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["photos"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    project().write(tmp_path / "new")
    assert (tmp_path / "new" / "manifest.json").is_file()


@pytest.mark.parametrize("failing", range(1, 30, 7))
def test_a_failed_write_leaves_the_old_project_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    folder = tmp_path / "project"
    project().write(folder)
    before = {p: p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}
    calls = iter(range(1000))
    original = Path.write_text

    def full(self: Path, *args: object, **kwargs: object) -> int:
        if next(calls) == failing:
            raise OSError("no space left on device")
        return original(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        generate(plan_of(tiny(), UpdateScheme()), "head").write(folder)
    monkeypatch.undo()
    assert {p: p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["project"]


def test_a_failed_move_brings_the_old_project_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    project().write(folder)
    original = Path.replace

    def refuses(self: Path, target: Path) -> Path:
        if Path(target) == folder and not self.name.endswith("-old"):
            raise PermissionError("not now")
        return original(self, target)

    monkeypatch.setattr(Path, "replace", refuses)
    with pytest.raises(PermissionError):
        project().write(folder)
    assert (folder / "manifest.json").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["project"]


# --------------------------------------------------------------------------------------- building


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="no make or no cc")
def test_make_builds_a_library_with_the_public_functions(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    project().write(folder)
    wanted = ["make", "-s", "libmct.a", "example/main"]
    done = subprocess.run(wanted, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "example/main").is_file()
    symbols = subprocess.run(["nm", "-g", "libmct.a"], cwd=folder, capture_output=True, text=True)
    header = re.sub(r"/\*.*?\*/", "", project().files["src/mct_model.h"], flags=re.DOTALL)
    for name in re.findall(r"^\w.*?\b(mct_\w+)\(.*\);$", header, re.MULTILINE):
        assert re.search(rf" T _?{name}$", symbols.stdout, re.MULTILINE), name
    subprocess.run(["make", "-s", "clean"], cwd=folder, check=True)
    assert not list(folder.rglob("*.o"))


HOSTILE = (
    "*/ int main; /*",
    'quote" and \\ backslash\\',
    "größe/ñ/模型",
    "new\nline // ??/",
    "int",
    "mct_train",
    "input",
    "add_s8",
    "state",
    "arena",
    "0",
    "",
    "%s%n$(shell true)",
    "x" * 300,
)


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_of_a_tensor_node_or_model_compiles(name: str) -> None:
    graph = tiny()
    hostile = replace(
        renamed(renamed(graph, "w0", name), graph.nodes[0].outputs[0], f"{name} y"),
        name=name,
    )
    first, *rest = hostile.nodes
    hostile = replace(hostile, nodes=(replace(first, name=name), *rest))
    training = training_graph(hostile, UpdateScheme())
    compiled = CompiledSimulator(planned(training), name, portable=True, extra_flags=QUICK)
    reference = ReferenceSimulator(training)
    x, labels = samples(hostile, 2, 2)
    reference.train(x, labels, rates(2))
    compiled.train(x, labels, rates(2))
    assert states_differ(compiled.state, reference.state) == []


def test_names_that_become_equal_in_c_stay_apart() -> None:
    graph = renamed(renamed(tiny(), "w0", "a.b"), "b0", "a/b")
    training = training_graph(graph, UpdateScheme())
    compiled = CompiledSimulator(planned(training), portable=True, extra_flags=QUICK)
    x, _ = samples(graph, 3, 2)
    assert (compiled.infer(x) == ReferenceSimulator(training).infer(x)).all()


def test_schemes_that_differ_in_one_trained_channel_have_different_hashes() -> None:
    """The text dump shortens tables after four entries; the hash must not."""
    graph = residual_network()
    hashes = set()
    for last in (5, 6, 7):
        updates = {"w5": ParameterUpdate((1.0,), 4, (0, 1, 2, 3, last))}
        training = differentiate(graph, "node8", updates, SoftmaxCrossEntropy)
        manifest = generate(planned(training), "x").files["manifest.json"]
        hashes.add(json.loads(manifest)["model_hash"])
    assert len(hashes) == 3


def test_a_library_is_built_once_per_content(monkeypatch: pytest.MonkeyPatch) -> None:
    made = project()
    first = build.build_library(made, portable=True, extra_flags=QUICK)
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build.build_library(made, portable=True, extra_flags=QUICK) == first


def test_int16_gradients_and_accumulation_are_in_the_text() -> None:
    options = TrainOptions("int16", 3)
    plan = planned(training_graph(tiny(), UpdateScheme("last:1", 1, {}, 1), options))
    files = generate(plan, "x").files
    assert "#define MCT_SAMPLES_PER_UPDATE 3u" in files["src/mct_model.h"]
    assert "mct_apply_updates(&step)" in files["src/mct_model.c"]
    assert "_s16(" in files["src/mct_model.c"]


def test_a_board_that_asks_for_it_is_called_behind_each_node() -> None:
    """Its model is the same: so a state goes from a Pico's UART to its USB."""
    plan = plan_of(tiny(), UpdateScheme())
    uart, usb = (generate(plan, "x", load_target(n)) for n in ("rpi-pico", "rpi-pico-usb"))
    hashes = {json.loads(project.files[FILE])["model_hash"] for project in (uart, usb)}
    assert len(hashes) == 1
    plain, called = (project.files["src/mct_model.c"] for project in (uart, usb))
    hook = "    /* what the board does meanwhile */\n    mct_between_nodes();\n"
    assert called.count(hook) > 3
    assert called.replace(hook, "") == plain


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    for target in filter(lambda t: t.has_firmware, map(load_target, board_names())):
        text = generate(plan_of(tiny(), UpdateScheme()), "x", target).files[FILE]
        (tmp_path / FILE).write_text(text)
        assert Manifest.read(tmp_path / FILE).to_json() == text


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"classes": "3"}, 'classes is "3", not an integer'),
        ({"input": {"shape": [1, 4], "scale": 1.0}}, "input: the key 'zero_point' is missing"),
        ({"model_hash": "xyz"}, "invalid literal"),
        ({"board": {"name": "b"}}, "board: the key 'title' is missing"),
        ({"state": 3}, "state is 3, not a list"),
        ({"format": 2}, "is of another version"),
    ],
)
def test_a_changed_manifest_is_a_sentence(
    tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    content = json.loads(
        generate(plan_of(tiny(), UpdateScheme()), "x", load_target("rpi-pico")).files[FILE]
    )
    (tmp_path / FILE).write_text(json.dumps({**content, **changed}))
    with pytest.raises(ProjectError) as raised:
        BoardProject.read(tmp_path)
    assert says in str(raised.value)
    assert str(tmp_path / FILE) in str(raised.value)
