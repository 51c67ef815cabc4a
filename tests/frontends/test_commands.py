"""Commands on raw samples: WAV folders, arrays and features at hand come to the same bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host.manifest import BoardProject, Region

import mcutrain
from mcutrain.cost.schemes import cost_model
from mcutrain.data import quantize_input
from mcutrain.data.layout import InputOrder
from mcutrain.errors import DataError, McutrainError, PlanError
from mcutrain.features import listening_bytes
from mcutrain.formats import saying_order, write
from mcutrain.formats.input_order import KEY
from mcutrain.formats.metadata import read_metadata
from mcutrain.frontends import Frontend, parse
from mcutrain.functions.board_samples import read_for_board
from mcutrain.functions.listener import SILENT
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.functions.run_options import DataOptions
from mcutrain.ir.graph import Graph
from mcutrain.ir.text import dump
from mcutrain.pipeline import load
from mcutrain.report.collect import collect
from mcutrain.report.project import read_project
from mcutrain.simulation import RunSettings
from mcutrain.sparse import parse_scheme
from mcutrain.target import load_target
from tests.cli.conftest import called
from tests.frontends.networks import float_file, listener, sound_folder, write_wav
from tests.frontends.sounds import sound

NAMES = ("high", "low", "middle")
TEXT = "audio:step_ms=20,frames=49"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sounds in data/, a float model, and both int8 models: one whose file says its front end."""
    root = tmp_path_factory.mktemp("sounds")
    sound_folder(root / "data", 5)
    float_file(root / "m.onnx")
    mcutrain.quantize(root / "m.onnx", root / "data", root / "said.tflite", frontend="audio")
    mcutrain.quantize(root / "m.onnx", root / "data", root / "plain.tflite")
    return root


def front_of(graph: Graph) -> Frontend:
    order = graph.input_order
    assert order is not None
    assert order.frontend is not None
    return order.frontend


def raw(folder: Path) -> tuple[Any, Any]:
    """The data as int16 arrays, in the order of the files."""
    x, y = [], []
    for label, name in enumerate(NAMES):
        for path in sorted((folder / "data" / name).iterdir()):
            content = path.read_bytes()
            x.append(np.frombuffer(content[content.index(b"data") + 8 :], "<i2"))
            y.append(label)
    return np.stack(x), np.array(y)


def trained(model: Path, data: Any, **more: Any) -> bytes:
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.05, "class_names": NAMES, **more}
    return bytes(mcutrain.simulate(model, data, "head", **how).saved)


def test_the_models_file_says_its_front_end(folder: Path) -> None:
    assert front_of(load(folder / "said.tflite")).text == TEXT
    order = load(folder / "plain.tflite").input_order
    assert order is None or order.frontend is None


def test_wav_files_arrays_and_features_train_alike(folder: Path) -> None:
    x, y = raw(folder)
    model, plain = folder / "said.tflite", folder / "plain.tflite"
    front = front_of(load(model))
    expected = trained(model, folder / "data")
    np.savez(folder / "raw.npz", x=x, y=y)
    assert trained(model, folder / "raw.npz", seed=0) == expected
    assert trained(model, (x, y)) == expected
    by_flag = trained(plain, (x, y), frontend="audio")
    assert trained(plain, (front.real(x)[..., np.newaxis], y)) == by_flag


def test_calibration_by_a_front_end_is_that_by_features_at_hand(folder: Path) -> None:
    x, _ = raw(folder)
    by_wav = load(folder / "said.tflite")
    by_features = mcutrain.quantize(folder / "m.onnx", front_of(by_wav).real(x)[:, np.newaxis])
    a, b = (next(iter(g.types(g.inputs))) for g in (by_wav, by_features.graph))
    assert (a.scale, a.zero_point) == (b.scale, b.zero_point)


def test_a_state_and_a_project_say_the_front_end(folder: Path, tmp_path: Path) -> None:
    step = mcutrain.prepare(folder / "said.tflite", "head")
    assert step.recipe is not None
    assert step.recipe.frontend == TEXT
    mcutrain.generate(folder / "said.tflite", tmp_path / "board", "head", board="nucleo-f446re")
    project = BoardProject.read(tmp_path / "board")
    assert project.manifest.sample_order is not None
    assert project.manifest.sample_order.frontend == TEXT


def test_a_boards_host_makes_the_boards_input_of_raw_samples(folder: Path, tmp_path: Path) -> None:
    graph = load(folder / "said.tflite")
    mcutrain.generate(folder / "said.tflite", tmp_path / "board", "head", board="nucleo-f446re")
    project, (x, y) = BoardProject.read(tmp_path / "board"), raw(folder)
    made = read_for_board(project, (x, y), DataOptions(), RunSettings(), SILENT)
    t = next(iter(graph.types(graph.inputs)))
    codes = front_of(graph).compute(x, t.scale, t.zero_point).reshape(len(x), -1)
    found = np.concatenate([made.test(0, len(made.split.test))]).reshape(-1, 1960)
    assert {row.tobytes() for row in found} <= {row.tobytes() for row in codes}


def test_plan_counts_the_bytes_of_listening(folder: Path) -> None:
    model = folder / "said.tflite"
    front = front_of(load(model))
    found = mcutrain.plan(model, "head", stream="least")
    assert found.listening is not None
    own = found.listening.sram_bytes
    assert own == listening_bytes(front)
    assert found.to_dict()["listening"]["frontend"] == TEXT
    limit = found.sram_bytes + own
    mcutrain.plan(model, "head", stream="least", sram=limit)
    with pytest.raises(PlanError, match=f"{own:,} front end"):
        mcutrain.plan(model, "head", stream="least", sram=limit - 1)
    assert mcutrain.plan(folder / "plain.tflite", "head").listening is None
    assert mcutrain.plan(model, "head", board="nucleo-f446re").listening is None


def test_a_boards_firmware_that_listens_has_the_bytes_that_plan_counts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, board = folder / "said.tflite", "nucleo-f446re"
    own = listening_bytes(front_of(load(model)))
    plain = mcutrain.plan(model, "head", board=board)
    found = mcutrain.plan(model, "head", board=board, listen=True)
    assert found.board is not None
    assert plain.board is not None
    assert found.board.firmware_bytes() - plain.board.firmware_bytes() == own + 8
    assert found.listening is not None
    assert found.listening.summary().startswith(f"{own:,} bytes of the SRAM are for the front end")
    flags = ("--scheme", "head", "--board", board, "--listen")
    assert called("generate", model, "-o", tmp_path / "p", *flags) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{own:,} bytes of the SRAM are" in said
    assert "every 20 ms, takes 114,340 (dsp) instructions, 1 ms." in said
    memory = BoardProject.read(tmp_path / "p").board.memory
    assert memory.firmware_bytes == found.board.firmware_bytes()
    how: dict[str, Any] = {"listen": True, "history": 100, "app": "learn"}
    learning = [
        mcutrain.plan(model, "head", board=board, **how, keep_samples=n).board for n in (0, 900)
    ]
    assert learning[1].firmware_bytes() - learning[0].firmware_bytes() == 2 * 1024 + 8
    with pytest.raises(McutrainError, match="give --app learn, too"):
        mcutrain.plan(model, "head", board=board, listen=True, keep_samples=900)
    with pytest.raises(McutrainError, match="a library takes raw samples anyway"):
        mcutrain.plan(model, "head", listen=True)
    with pytest.raises(McutrainError, match="give --frontend, or leave out --listen"):
        mcutrain.plan(folder / "plain.tflite", "head", board=board, listen=True)
    arena, kept = found.step.plan.arena_bytes, found.step.plan.resident_bytes
    needs, whole = found.board.sram_bytes(arena, kept), load_target(board)
    assert whole.ram is not None
    for size in (needs, needs - 8):
        small = replace(whole, ram=Region(whole.ram.origin, size))
        if size == needs:
            mcutrain.plan(found.step, board=small, listen=True)
        else:
            with pytest.raises(PlanError, match=f"needs {needs:,} bytes"):
                mcutrain.plan(found.step, board=small, listen=True)


def test_plan_computes_more_row_by_row_where_listening_takes_the_memory(folder: Path) -> None:
    model = folder / "said.tflite"
    least = mcutrain.plan(model, "head", stream="least").sram_bytes
    own = listening_bytes(front_of(load(model)))
    assert mcutrain.plan(model, "head", sram=least + own).sram_bytes == least
    assert mcutrain.plan(folder / "plain.tflite", "head", sram=least + own).sram_bytes > least


def test_another_front_end_than_the_models_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"is for the front end .*step_ms=20.*step_ms=10"):
        trained(folder / "said.tflite", raw(folder), frontend="audio:step_ms=10")
    with pytest.raises(DataError, match="leave out --frontend"):
        mcutrain.plan(folder / "said.tflite", "head", frontend="audio:step_ms=10")


def test_raw_samples_without_a_front_end_are_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"x is int16, raw samples.*--frontend"):
        trained(folder / "plain.tflite", raw(folder))


def test_arrays_that_are_too_short_are_refused(folder: Path) -> None:
    x, y = raw(folder)
    with pytest.raises(DataError, match="x: a sample has 479 raw values"):
        trained(folder / "said.tflite", (x[:, :479], y))


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "rate": (lambda p: write_wav(p, sound(1, 16_000), 8000), r"8,000 Hz.*at 16,000 Hz"),
    "stereo": (lambda p: write_wav(p, sound(1, 32_000), channels=2), "2 channels of 16-bit"),
    "short": (lambda p: write_wav(p, sound(1, 479)), "479 raw values"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_the_device_would_not_hear_so_is_named(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    write, part = BAD[kind]
    data = sound_folder(tmp_path / "data", 4)
    write(data / "low" / "0.wav")
    with pytest.raises(McutrainError, match=rf"low.0\.wav.*{part}"):
        trained(folder / "said.tflite", data)


def test_a_short_file_ends_in_zeros(folder: Path, tmp_path: Path) -> None:
    graph, x = load(folder / "said.tflite"), sound(3, 5000)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_wav(tmp_path / name / "0.wav", x)
        write_wav(tmp_path / name / "1.wav", x)
    split = mcutrain.data.load(tmp_path, order=graph.input_order)
    whole = np.concatenate((x, np.zeros(11_000, np.int16)))
    expected = front_of(graph).real(whole[np.newaxis])[0]
    assert np.array_equal(split.train.x[0].reshape(49, 40), expected)


@pytest.fixture(scope="module")
def keywords(shared: Path) -> Path:
    return shared / "models" / "kws_ref_model.tflite"


@pytest.mark.slow
def test_a_public_keyword_model_takes_wav_files_and_arrays(
    folder: Path, keywords: Path, tmp_path: Path
) -> None:
    x, y = raw(folder)
    by_arrays = trained(keywords, (x, y), classes=3, frontend="mfcc")
    assert trained(keywords, folder / "data", classes=3, frontend="mfcc") == by_arrays
    real = parse("mfcc", (49, 10, 1)).real(x)
    assert trained(keywords, (real[..., np.newaxis], y), classes=3) == by_arrays


def test_plan_counts_the_bytes_of_a_public_keyword_models_mfccs(keywords: Path) -> None:
    found = mcutrain.plan(keywords, "head", frontend="mfcc")
    assert found.listening is not None
    assert found.listening.frontend == "mfcc:frames=49"
    heard, waiting, work, features, window = 964 + 32, 4096, 2048, 20, 49 * 22
    assert found.listening.sram_bytes == heard + waiting + work + features + window + 2


def test_wav_files_become_integer_mfccs_near_the_real_ones(folder: Path, keywords: Path) -> None:
    """Without --frontend they are in double precision, of a second, as training had them."""
    x_type = load(keywords).types(load(keywords).inputs)[0]
    order = InputOrder.own((49, 10, 1)).with_frontend("mfcc")
    whole = [mcutrain.data.load(folder / "data", order=o) for o in (order, None)]
    ours, exact = (
        quantize_input(s.train.x, scale=x_type.scale, zero_point=x_type.zero_point) for s in whole
    )
    apart = np.abs(ours.reshape(-1).astype(int) - exact.reshape(-1))
    assert apart.max() <= 1
    assert np.mean(apart > 0) < 0.01


def test_selection_and_budgets_count_what_a_library_hears(folder: Path) -> None:
    said, plain = load(folder / "said.tflite"), load(folder / "plain.tflite")
    own, head = listening_bytes(front_of(said)), parse_scheme("head")
    board = load_target("nucleo-f446re")
    for target, expected in ((None, own), (board, 0)):
        costs = [cost_model(graph, target) for graph in (said, plain)]
        assert costs[0].plan(head).sram_bytes - costs[1].plan(head).sram_bytes == expected
        assert costs[0].fixed_sram_bytes - costs[1].fixed_sram_bytes == expected
        limit = MemoryLimit.of(target, None)
        needs = [limit.needs(mcutrain.prepare(graph, "head")) for graph in (said, plain)]
        assert needs[0] - needs[1] == expected


def test_reports_have_the_front_end_among_the_sram(folder: Path, tmp_path: Path) -> None:
    step = mcutrain.prepare(folder / "said.tflite", "head")
    own = listening_bytes(front_of(step.graph))
    mcutrain.generate(folder / "said.tflite", tmp_path / "library", "head", stream="off")
    mcutrain.generate(folder / "said.tflite", tmp_path / "board", "head", board="nucleo-f446re")
    for report in (collect(step), read_project(tmp_path / "library")):
        assert report.usage is not None
        assert {p.name: p.size_bytes for p in report.usage.sram}["front end"] == own
    for report in (collect(step, load_target("nucleo-f446re")), read_project(tmp_path / "board")):
        assert report.usage is not None
        assert "front end" not in {part.name for part in report.usage.sram}


@pytest.mark.slow
def test_an_export_says_the_front_end_or_has_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is written anew has the entry; another keeps all else that it says."""
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.05, "class_names": NAMES}
    found = {}
    for name, frontend in (("plain", "audio"), ("said", "")):
        model, state = folder / f"{name}.tflite", tmp_path / f"{name}.mcts"
        mcutrain.simulate(model, raw(folder), "head", frontend=frontend, **how, save_state=state)
        same = mcutrain.export(model, tmp_path / f"{name}.tflite", state)
        assert same.is_original
        anew = mcutrain.export(model, tmp_path / f"{name}.onnx", state)
        found[name] = (same.frontend, anew.frontend)
        assert front_of(load(anew.path)).text == TEXT
        written = load(same.path).input_order
        assert (written is not None and written.frontend is not None) is (name == "said")
    assert found == {"plain": (TEXT, ""), "said": ("", "")}
    files = [str(folder / "plain.tflite"), str(tmp_path / "again.tflite")]
    state = str(tmp_path / "plain.mcts")
    assert called("export", files[0], "--state", state, "-o", files[1]) == 0
    assert f"--frontend {TEXT}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_file_can_be_made_to_say_its_front_end(folder: Path, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"m{suffix}"
    if suffix == ".onnx":
        write(listener(49, frontend=""), path)
    else:
        shutil.copyfile(folder / "plain.tflite", path)
    shape = load(path).tensors[load(path).inputs[0]].type.shape[1:]
    for text in (TEXT, "audio:step_ms=10,frames=49"):
        plain = load(path)
        order = plain.input_order or InputOrder.own(shape, path.name)
        asked = replace(order, frontend=None).with_frontend(text)
        path.write_bytes(saying_order(path, replace(plain, input_order=asked)))
        found = load(path)
        assert front_of(found).text == text
        assert dump(found) == dump(plain)
        assert {name: t.data is None for name, t in found.tensors.items()} == {
            name: t.data is None for name, t in plain.tensors.items()
        }
        assert list(read_metadata(path)).count(KEY) == 1


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("file", ["m.onnx", "plain.tflite"])
def test_fit_hears_by_a_front_end_in_all_that_it_writes(
    folder: Path, file: str, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.01, "class_names": NAMES}
    with pytest.warns(UserWarning, match="3 test samples"):
        found = mcutrain.fit(
            folder / file, folder / "data", tmp_path / "out", "head", frontend=TEXT, **how
        )
    int8 = load(next((tmp_path / "out").glob("model.int8.*")))
    assert front_of(int8).text == front_of(load(found.trained)).text == TEXT
    if file == "m.onnx":
        by_hand = mcutrain.quantize(folder / file, folder / "data", frontend=TEXT).graph
        assert int8.types(int8.inputs) == by_hand.types(by_hand.inputs)
    assert (tmp_path / "out" / "project" / "src" / "mct_audio.c").exists()
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("mcutrain ")]
    for line in commands:
        hears = line.split()[1] in {"quantize", "simulate", "generate"}
        assert (f"--frontend {TEXT}" in line) is hears, line
