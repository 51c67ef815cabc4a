"""A board that hears raw samples computes numpy's features, and learns from them to its bits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import RefusedError
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import HEARD_WINDOW, LOUDEST_WINDOW, Command, Status, WindowTaken
from mcutrain_host.virtual.qemu import QemuBoard

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.errors import McutrainError
from mcutrain.features.listening import listening_bytes
from mcutrain.frontends import Frontend
from mcutrain.frontends.trigger import activities, loudest, windows_heard
from mcutrain.pipeline import TrainingStep
from mcutrain.target import load_target
from tests.boards.projects import RATE, SEED, built, with_a_board
from tests.boards.test_replay import SENT_RATE
from tests.boards.test_same_bits import PATIENCE, SECONDS, as_program, on_unicorn
from tests.frontends.networks import KINDS, listener
from tests.frontends.sounds import Sound
from tests.frontends.test_listening import front_of, heard_by
from tests.frontends.test_trigger import noise

FRAMES, WINDOWS, LABELS = 6, 4, (1, 0, 2, 1)
QEMU = "mps2-an386"
BOARDS = ("rpi-pico", "nucleo-f446re", "rpi-pico-2")
"""A Cortex-M0+, a Cortex-M4, a Cortex-M33."""
LISTENING = Interface(listen=True)


@lru_cache(maxsize=4)
def step_of(kind: str) -> TrainingStep:
    graph = KINDS[kind](FRAMES)
    return prepare(replace(graph, name=f"{kind} {graph.name}"), "head")


def project(root: Path, board: str, kind: str = "audio", **more: object) -> Path:
    return built(root, board, step=step_of(kind), interface=replace(LISTENING, **more))


def windows_of(front: Frontend) -> Sound:
    size = front.input_shape[0]
    return np.stack([heard_by(front, seed, size) for seed in range(WINDOWS)])


@lru_cache(maxsize=4)
def expected(kind: str) -> tuple[bytes, ...]:
    """Outputs of windows as they are, then the state after learning them, by numpy."""
    step = step_of(kind)
    front, x = front_of(step.graph), step.input_type
    made = front.compute(windows_of(front), x.scale, x.zero_point)
    reference = step.reference(SEED)
    outputs = [reference.infer(window[np.newaxis]).tobytes() for window in made]
    reference.train(made, np.array(LABELS), [RATE] * WINDOWS)
    return (*outputs, reference.save())


def learnt(device: Device, kind: str) -> tuple[bytes, ...]:
    """The same of a board that is sent raw samples."""
    device.reset(SEED)
    found = []
    windows = windows_of(front_of(step_of(kind).graph))
    for window in windows:
        device.send_raw(window.tobytes())
        device.infer()
        found.append(device.read_output())
    for position, (window, label) in enumerate(zip(windows, LABELS, strict=True)):
        device.send_raw(window.tobytes())
        device.train(label, position, SENT_RATE)
    return (*found, device.read_state())


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(("kind", "board"), with_a_board(KINDS, BOARDS))
def test_every_chip_hears_numpys_bits_in_the_memory_that_was_planned(
    projects_root: Path, board: str, kind: str
) -> None:
    folder = project(projects_root, board, kind)
    device = on_unicorn(folder)
    assert learnt(device, kind) == expected(kind)
    memory, linked = BoardProject.read(folder).board.memory, linked_memory(folder)
    assert linked is not None
    assert linked.agrees
    front = front_of(step_of(kind).graph)
    target = load_target(board)
    more = memory.firmware_bytes - target.firmware_bytes()
    assert more == listening_bytes(front) + 8
    assert device.identity.sram_bytes == memory.sram_bytes
    assert device.identity.window_samples == front.input_shape[0]
    assert device.identity.sample_numbers == front.channels
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_and_qemu_hear_numpys_bits(projects_root: Path, kind: str) -> None:
    with as_program(project(projects_root, "native", kind)) as device:
        assert learnt(device, kind) == expected(kind)
    if kind == "audio" and shutil.which("qemu-system-arm") is not None:
        folder = project(projects_root, QEMU, kind)
        with QemuBoard.from_folder(folder) as qemu, SerialLink(qemu.port) as link:
            assert learnt(Device(link, PATIENCE), kind) == expected(kind)


@pytest.mark.draws(2)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_in_pieces_gives_the_windows_of_numpy(projects_root: Path, kind: str) -> None:
    """On a Cortex-M0+, which reads no number from an odd address."""
    step = step_of(kind)
    front, x = front_of(step.graph), step.input_type
    device = on_unicorn(project(projects_root, "rpi-pico", kind))
    device.reset(SEED)
    lengths = np.random.default_rng(3).integers(1, 3 * front.hop, 20)
    sound, at, fresh = heard_by(front, 40, int(lengths.sum())), 0, 0
    rows, least = front.stream().push(sound), front.least_samples
    for length in lengths.tolist():
        piece = sound[at : at + length]
        heard = device.hear(piece.tobytes(), 2 * front.channels * at)
        before, at = max(0, (at - least) // front.hop + 1), at + length
        frames = max(0, (at - least) // front.hop + 1)
        fresh += frames - before
        assert heard.lost == 0
        assert heard.frames == (fresh if frames >= FRAMES else 0)
        if frames < FRAMES:
            continue
        assert device.take_window() == WindowTaken(fresh, 0)
        fresh = 0
        device.infer()
        window = front.of_window(rows[frames - FRAMES : frames])
        codes = front.codes(window, x.scale, x.zero_point)
        assert device.read_output() == step.reference(SEED).infer(codes[np.newaxis]).tobytes()


@pytest.mark.timeout(SECONDS)
def test_what_cannot_be_is_refused_and_changes_nothing(projects_root: Path) -> None:
    device = on_unicorn(project(projects_root, "rpi-pico"))
    device.reset(SEED)
    window = windows_of(front_of(step_of("audio").graph))[0]
    sample_bytes = window[:320].tobytes()

    def refusal(call: object, *given: object) -> tuple[int, bytes]:
        with pytest.raises(RefusedError) as refused:
            call(*given)  # type: ignore[operator]
        return refused.value.status, refused.value.body

    assert refusal(device.hear, sample_bytes, 640) == (Status.OFFSET, bytes(4))
    device.hear(sample_bytes, 0)
    assert refusal(device.take_window)[0] == Status.SAMPLE_INCOMPLETE
    assert refusal(device.hear, sample_bytes, 0x1_0000) == (
        Status.OFFSET,
        (640).to_bytes(4, "little"),
    )
    for body in (bytes(4), bytes(5), bytes(7), bytes(3)):
        assert refusal(device._ask, Command.HEAR, body, bytes)[0] == Status.LENGTH
    for body in (b"\0", bytes(4)):
        assert refusal(device._ask, Command.WINDOW, body, bytes)[0] == Status.LENGTH
    device.send_raw(window.tobytes())
    device.infer()
    scores = device.read_output()
    assert refusal(device.infer)[0] == Status.SAMPLE_INCOMPLETE, "the sample is used up"
    device.take_window()
    device.infer()
    assert device.read_output() == scores, "a window may be taken again"
    device.hear(sample_bytes, 0)
    assert refusal(device.take_window)[0] == Status.SAMPLE_INCOMPLETE, "a new stream"
    assert device.read_output() == scores
    device.reset(SEED)
    assert refusal(device.hear, sample_bytes, 640) == (Status.OFFSET, bytes(4))
    for raw, offset in ((b"", 0), (b"\0", 0), (sample_bytes, 1)):
        with pytest.raises(ValueError, match="2 bytes each"):
            device.hear(raw, offset)
    with pytest.raises(ValueError, match="a window has"):
        device.send_raw(sample_bytes)
    plain = on_unicorn(built(projects_root, "rpi-pico", step=step_of("audio")))
    assert not plain.identify().listens
    assert refusal(plain._ask, Command.HEAR, bytes(8), bytes)[0] == Status.COMMAND
    with pytest.raises(ValueError, match="takes no raw samples"):
        plain.hear(sample_bytes, 0)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("more", [{"latent": "auto"}, {"remember": 4}], ids=str)
def test_beside_latents_it_has_the_memory_that_was_planned(
    projects_root: Path, more: dict[str, object]
) -> None:
    folder = project(projects_root, "nucleo-f446re", **more)
    linked, device = linked_memory(folder), on_unicorn(folder)
    assert linked is not None
    assert linked.agrees
    assert learnt(device, "audio") == expected("audio")
    device.send_latent(bytes(device.identity.latent_bytes))
    device.take_window()
    device.infer()
    assert device.read_output() != expected("audio")[0], "the last window"
    device.send_latent(bytes(device.identity.latent_bytes))
    device.infer()
    of_latent = device.read_output()
    device.take_window()
    device.infer()
    assert device.read_output() != of_latent


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(("kind", "board"), with_a_board(("audio", "mfcc", "features")))
def test_a_board_finds_what_stands_out_and_learns_its_window(
    projects_root: Path, board: str, kind: str
) -> None:
    """Two sounds in noise: the second is in the history when the first is asked for too late."""
    history, step = 4 * FRAMES, step_of(kind)
    front, x = front_of(step.graph), step.input_type
    folder = project(projects_root, board, kind, history=history)
    linked, device = linked_memory(folder), on_unicorn(folder)
    assert linked is not None
    assert linked.agrees
    memory = BoardProject.read(folder).board.memory
    more = memory.firmware_bytes - load_target(board).firmware_bytes()
    assert more == listening_bytes(front, history) + 8
    quiet, loud = (20, 20), (5, 9000)
    stream = noise(front, [quiet, loud, quiet, loud, (12, 20)], 5)
    _, second = windows_heard(front, stream)
    rows, count = front.stream().push(stream), len(activities(front, stream))
    device.reset(SEED)
    middle = (front.least_samples + (second - 3) * front.hop) * 2 * front.channels
    device.hear(stream.tobytes()[:middle], 0)
    with pytest.raises(RefusedError):
        device.take_window(HEARD_WINDOW)
    device.hear(stream.tobytes()[middle:], middle)
    ago = device.take_window(HEARD_WINDOW).ago
    assert ago == count - 1 - second
    made = [front.of_window(rows[end - FRAMES + 1 : end + 1]) for end in (second, count - 1 - 9)]
    codes = front.codes(np.stack(made), x.scale, x.zero_point)
    device.train(1, 0, SENT_RATE)
    with pytest.raises(RefusedError):
        device.take_window(HEARD_WINDOW)
    kept = activities(front, stream).tolist()[-history:]
    assert device.take_window(LOUDEST_WINDOW).ago == loudest(kept, FRAMES)
    assert device.take_window(9).ago == 9
    device.train(2, 1, SENT_RATE)
    reference = step.reference(SEED)
    reference.train(codes, np.array([1, 2]), [RATE] * 2)
    assert device.read_state() == reference.save()
    with pytest.raises(RefusedError):
        device.take_window(history - FRAMES + 1)
    device.take_window(history - FRAMES)


def test_a_board_listens_by_a_front_end_and_a_library_anyway() -> None:
    step = prepare(listener(FRAMES, frontend=""), "head")
    with pytest.raises(McutrainError, match="give --frontend, or leave out --listen"):
        step.firmware(load_target("rpi-pico"), LISTENING)
    with pytest.raises(McutrainError, match="leave out --listen"):
        step_of("audio").library(LISTENING)
    plain = step_of("audio").firmware(load_target("rpi-pico")).files
    assert not any("mct_samples" in name or "mct_hear" in name for name in plain)
