"""A board with a camera is trained, and taught a class from images: the desk has its state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Status
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.machine import Machine as VirtualMachine

import mcutrain
from mcutrain.errors import DataError, McutrainError
from mcutrain.features import listening_bytes
from mcutrain.frontends import parse
from mcutrain.frontends.camera import CameraFrontend
from mcutrain.functions.raw_samples import played, read_raw
from tests.boards.test_same_bits import PATIENCE
from tests.frontends.networks import viewer

Image = pytest.importorskip("PIL.Image")
NAMES = ("dark", "grey", "light", "stripes")
HEIGHT = 14
GRAPH = viewer(f"camera:width=16,height={HEIGHT},format=rgb565,rate=5")
FRAME_BYTES = HEIGHT * 32


def picture(path: Path, level: int, seed: int) -> None:
    """Noise around a level; stripes in the place of it below 0."""
    random = np.random.default_rng(seed)
    x = random.normal(max(level, 0), 20, (30, 40, 3))
    if level < 0:
        x[::4] = x[1::4] = 250
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(x, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, of five images each, and a fourth of three."""
    root = tmp_path_factory.mktemp("images")
    for label, name in enumerate(NAMES):
        for i in range(5 if label < 3 else 3):
            picture(root / name / f"{i}.png", (60, 120, 180, -1)[label], 10 * label + i)
    return root


def project_of(root: Path, board: str, **more: Any) -> Path:
    mcutrain.generate(
        *(GRAPH, root / "project", "head"),
        board=board,
        listen=True,
        classes=4,
        class_names=NAMES,
        **more,
    )
    mcutrain.build(root / "project", optimize="1")
    return root / "project"


LEARN: dict[str, Any] = {"history": 2, "app": "learn", "imprint": True, "remember": 4}


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["max", "off"])
def test_a_board_is_trained_on_what_its_camera_would_send(
    data: Path, tmp_path: Path, stream: str
) -> None:
    """A Cortex-M0+, without room for an image beside the network's input."""
    project = project_of(tmp_path, "rpi-pico", stream=stream)
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.05, "class_names": NAMES}
    expected = mcutrain.simulate(GRAPH, data, "head", classes=4, **how)
    files = {"state": tmp_path / "s.mcts", "log": tmp_path / "log.jsonl"}
    with mcutrain.virtual_board(project, link="tcp") as board:
        found = mcutrain.train_board(project, data, port=board.port, **how, **files)
    assert found.saved == expected.saved
    assert found.accuracy == expected.accuracy
    planned = mcutrain.plan(GRAPH, "head", classes=4, board="rpi-pico", listen=True, stream=stream)
    assert planned.listening is not None
    front = front_of(project)
    assert planned.listening.sram_bytes == listening_bytes(front)
    assert listening_bytes(front) < 500
    linked = linked_memory(project)
    assert linked is not None
    assert linked.agrees


def front_of(project: Path) -> CameraFrontend:
    order = BoardProject.read(project).manifest.sample_order
    assert order is not None
    front = parse(order.frontend)
    assert isinstance(front, CameraFrontend)
    return front


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A Cortex-M4 that watches the source of a virtual board, and keeps frames."""
    more = {"data": data, "sensor": True, "keep_samples": 8 * HEIGHT}
    found = project_of(tmp_path_factory.mktemp("learner"), "nucleo-f446re", **LEARN, **more)
    linked = linked_memory(found)
    assert linked is not None
    assert linked.agrees
    return found


@pytest.mark.slow
def test_a_class_is_taught_from_images_and_replayed_from_frames(
    learner: Path, data: Path, tmp_path: Path
) -> None:
    lessons = tmp_path / "lessons"
    with mcutrain.virtual_board(learner, link="tcp") as board:
        how: dict[str, Any] = {"port": board.port, "record": lessons, "check": True}
        first = mcutrain.teach(learner, "stripes", hear=data / "stripes", samples=3, **how)
        assert (first.samples, first.label, first.agrees) == (3, 3, True)
        assert mcutrain.teach(learner, "dark", hear=data / "dark/1.png", **how).agrees
        clip = lessons / "raw/stripes/0001.raw"
        assert clip.stat().st_size == FRAME_BYTES
        assert mcutrain.teach(learner, "stripes", hear=clip, replay=1, **how).agrees
        state = mcutrain.pull(learner, tmp_path / "s.mcts", port=board.port).saved
        with pytest.raises(DataError, match="there is no image: files of these end in"):
            mcutrain.teach(learner, "dark", hear=data, **how)
        (tmp_path / "x.raw").write_bytes(bytes(FRAME_BYTES + 1))
        with pytest.raises(DataError, match=r"has 449 bytes, but a frame .* 14 rows of 32"):
            mcutrain.teach(learner, "dark", hear=tmp_path / "x.raw", **how)
    assert mcutrain.taught_state(learner, lessons) == state
    lines = [json.loads(line) for line in (lessons / "lessons.jsonl").read_text().splitlines()]
    assert [line["ends"] for line in lines] == [[3, 6, 9], [3], [3]]
    how = {"epochs": 1, "learning_rate": 0.01, "test_share": 0.3}
    found = mcutrain.simulate(GRAPH, lessons / "raw", "head", classes=2, **how)
    assert found.steps > 0
    stream = lessons / "streams/0000.raw"
    content = bytearray(stream.read_bytes())
    content[2 * FRAME_BYTES + 5] ^= 128
    stream.write_bytes(content)
    with pytest.raises(DataError, match=r"0000\.raw are not those that the board"):
        mcutrain.taught_state(learner, lessons)


@pytest.mark.slow
def test_a_virtual_camera_is_watched_and_its_frames_are_brought_back(
    learner: Path, data: Path, tmp_path: Path
) -> None:
    lessons, front = tmp_path / "lessons", front_of(learner)
    with mcutrain.virtual_board(learner, link="tcp", play=data / "stripes") as board:
        how: dict[str, Any] = {"port": board.port, "record": lessons, "check": True, "wait": 60}
        found = mcutrain.teach(learner, "stripes", samples=2, **how)
        assert (found.samples, found.agrees) == (2, True)
        assert mcutrain.teach(learner, "grey", **how).agrees
    shown = {rows.tobytes() for rows in played(front, data / "stripes").reshape(-1, HEIGHT, 16)}
    for path in (lessons / "streams").iterdir():
        frames = read_raw(front, path).reshape(-1, HEIGHT, 16)
        assert len(frames)
        assert {rows.tobytes() for rows in frames} <= shown
    assert len(list((lessons / "raw").rglob("*.raw"))) == 3


def machine_of(project: Path) -> tuple[VirtualMachine, Device]:
    machine = load_machine(project, LoopbackLink())
    return machine, Device(DirectLink(machine), PATIENCE)


def codes_of(front: CameraFrontend, rows: npt.NDArray[np.int16]) -> list[bytes]:
    """Images as the network takes them."""
    (x,) = GRAPH.types(GRAPH.inputs)
    frames = rows.reshape(-1, HEIGHT, 16)
    return [image.tobytes() for image in front.compute(frames, x.scale, x.zero_point)]


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["max", "off"])
def test_a_sample_and_an_image_share_the_inputs_memory(tmp_path: Path, stream: str) -> None:
    """Whichever came last counts, as a whole; of the other there is nothing any more."""
    project = tmp_path / "project"
    mcutrain.generate(GRAPH, project, "head", board="nucleo-f446re", listen=True, stream=stream)
    mcutrain.build(project, optimize="1")
    _, device = machine_of(project)
    random = np.random.default_rng(6)
    raw = random.integers(-(2**15), 2**15, (HEIGHT, 16)).astype(np.int16)
    (image,) = codes_of(front_of(project), raw)
    sample = random.integers(-128, 128, len(image)).astype(np.int8).tobytes()

    def scores() -> bytes:
        device.infer()
        return device.read_output()

    def refuses(ask: Callable[[], object]) -> None:
        with pytest.raises(RefusedError) as refused:
            ask()
        assert refused.value.status == Status.SAMPLE_INCOMPLETE

    device.send_sample(image)
    expected = scores()
    device.send_sample(sample)
    others = scores()
    assert expected != others
    half = raw[: HEIGHT // 2]
    device.send_sample(sample)
    device.hear(half.tobytes(), 0)
    refuses(device.infer)
    device.send_sample(sample)
    device.hear(raw[HEIGHT // 2 :].tobytes(), half.nbytes)
    refuses(device.take_window)
    device.hear(raw.tobytes(), 0)
    device.send_sample(sample)
    refuses(device.take_window)
    refuses(device.infer)
    device.hear(raw.tobytes(), 0)
    device.send_sample(sample)
    assert scores() == others
    device.send_raw(raw.tobytes())
    assert scores() == expected


@pytest.mark.slow
def test_frames_are_kept_beside_the_one_that_arrives(learner: Path) -> None:
    _, device = machine_of(learner)
    front = front_of(learner)
    x = np.random.default_rng(2).integers(-(2**15), 2**15, (13 * HEIGHT, 16)).astype(np.int16)
    row_bytes = x[:1].nbytes
    device.hear(x[5:11].tobytes(), 0)
    device.hear(x[:-3].tobytes(), 0)  # begins anew, though the first image had no end
    assert device.read_window(device.learnt().frames) == codes_of(front, x[: 12 * HEIGHT])[11]
    room, total = 128 - HEIGHT, 12 * HEIGHT
    kept = device.read_samples(total - room, 1000)
    assert (kept.total, kept.begun) == (total, 0)
    count = len(kept.raw) // row_bytes
    assert count > 10
    assert kept.raw == x[total - room :][:count].tobytes()
    assert device.read_samples(total - 1).raw == x[total - 1 : total].tobytes()
    assert device.read_samples(total).raw == b""
    with pytest.raises(RefusedError) as refused:
        device.read_samples(total - room - 1)
    assert refused.value.status == Status.NOT_KEPT


@pytest.mark.slow
def test_images_are_whole_though_a_slow_board_loses_rows(learner: Path, data: Path) -> None:
    machine, device = machine_of(learner)
    front = front_of(learner)
    x = np.random.default_rng(3).integers(-(2**15), 2**15, (40 * HEIGHT, 16)).astype(np.int16)
    machine.sensor.play(x.tolist(), 1000, frame=HEIGHT)
    machine.run(until_idle=True)
    assert machine.sensor.lost > 0
    images, frames = set(codes_of(front, x)), device.learnt().frames
    assert 2 < frames < 40
    assert {device.read_window(frames), device.read_window(frames - 1)} <= images
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


def test_what_no_board_can_do_gets_a_sentence(tmp_path: Path) -> None:
    wide = viewer("camera:width=256,height=14,format=rgb565")
    with pytest.raises(McutrainError, match="a row of the camera has 512 bytes"):
        mcutrain.plan(wide, "head", board="nucleo-f446re", listen=True)
    assert mcutrain.plan(wide, "head").listening is not None
    few = {"board": "nucleo-f446re", "listen": True, "history": 1, "app": "learn"}
    with pytest.raises(McutrainError, match=r"27 rows of the camera hold no image .* 28 or more"):
        mcutrain.generate(GRAPH, tmp_path / "p", "head", keep_samples=27, **few)
