"""What you simulate is what you flash: every board, compiler and emulator ends with the same state.

`make stress` trains 1,000 steps of the demo's network and 10 of MCUNet, with every optimisation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.link import SerialLink
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.qemu import QemuBoard

from mcutrain import prepare
from mcutrain.features.policy_feedback import Drift
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation import CompiledSimulator
from mcutrain.sparse import UpdateScheme
from mcutrain.target import load_target
from tests.boards.projects import (
    ONLY_IN_QEMU,
    RATE,
    SEED,
    TRAINING_THE_DEMO,
    TWO_BODIES,
    built,
    has_compiler,
    lessons,
    quick_lessons,
    quick_state,
    quick_step,
    simulated_state,
    training_step,
    with_a_board,
)
from tests.cost.networks import attending, cutting, grouped, normalizing, resizing
from tests.drawing import drawn_by_commit
from tests.memplan.ladders import ladder_of
from tests.memplan.test_stream import mobile_network
from tests.simulation.networks import (
    Network,
    modern_network,
    prelu_network,
    same,
    samples,
    threaded_network,
    transformer_network,
)

IS_STRESS = bool(os.environ.get("MCUTRAIN_STRESS"))
STEPS = 1000 if IS_STRESS else 6
MCUNET_STEPS = 10 if IS_STRESS else 1
MCUNET_SCHEMES = ("mcunet-5fps-49kb", "mcunet-5fps-100kb") if IS_STRESS else ("mcunet-5fps-49kb",)
LEVELS = {
    "gcc": ("-O1", "-O2", "-Os"),  # -O3 is everywhere else
    "zig": ("-Os", "-O3"),  # -O1 and -O2 give the ELF of -O3, byte for byte
}
OTHERWISE_BUILT = [
    (board, name, level)
    for board in ("nucleo-f446re", "stm32f746g-disco", "rpi-pico")
    for name in LEVELS
    for level in LEVELS[name]
]
OF_EACH_COMPILER = (("rpi-pico", "gcc", "-Os"), ("nucleo-f446re", "zig", "-O3"))
PATIENCE = Patience(answer_seconds=5.0, work_seconds=600.0)
SECONDS = 7200 if IS_STRESS else 600
QEMU_BOARDS = (
    "mps2-an386",
    *drawn_by_commit(("mps2-an500", "netduinoplus2", *ONLY_IN_QEMU), 1),
)
ALL_BODIES = ("nucleo-f446re", "rpi-pico", "stm32f746g-disco")
NETWORKS = {
    "resizing": (resizing, "full"),
    "cutting": (cutting, "full"),
    "attending": (attending, "full"),
    "normalizing": (normalizing, "full"),
    "grouped": (grouped, "full"),
    "grouped in part": (grouped, "bias:4,1:0.25,2:0.5"),
    "transformer": (transformer_network, "full"),
    "transformer in part": (transformer_network, "bias:9,2:0.5,8:0.25"),
}
PROGRAM = re.compile(r"port (\S+)")


def trained(device: Device, x: np.ndarray, y: np.ndarray) -> bytes:
    """The state that a board has after learning samples from its initial weights."""
    device.reset(SEED)
    for position, (sample, label) in enumerate(zip(x, y, strict=True)):
        device.send_sample(sample.tobytes())
        device.train(int(label), position, Rate(RATE.mult_q31, RATE.shift))
    return device.read_state()


def simulated(
    step: TrainingStep, count: int, classes: int
) -> tuple[np.ndarray, np.ndarray, CompiledSimulator]:
    """Random samples, and the simulation that has learnt them."""
    x, y = samples(step.graph, count, classes)
    simulator = step.simulator(SEED)
    simulator.train(x, y, [RATE] * len(y))
    return x, y, simulator


def on_unicorn(folder: Path) -> Device:
    return Device(DirectLink(load_machine(folder, LoopbackLink())), PATIENCE)


@contextmanager
def as_program(folder: Path, emulator: tuple[str, ...] = (), threads: int = 1) -> Iterator[Device]:
    """A Linux board's program, on a TCP port."""
    command = [*emulator, "build/firmware", "--port", "tcp:0", "--state", "slots"]
    command += ["--threads", str(threads)]
    (folder / "slots").unlink(missing_ok=True)
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program:
        try:
            found = PROGRAM.match(program.stdout.readline())
            with SerialLink(found[1]) as link:
                yield Device(link, PATIENCE)
        finally:
            program.kill()


def demo_lessons() -> tuple[np.ndarray, np.ndarray]:
    x, y = lessons()
    return x[:STEPS], y[:STEPS]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", TRAINING_THE_DEMO)
def test_unicorn_ends_with_the_simulations_bits(projects_root, board):
    device = on_unicorn(built(projects_root, board))
    assert trained(device, *demo_lessons()) == simulated_state(STEPS)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", QEMU_BOARDS)
def test_qemu_ends_with_the_simulations_bits(projects_root, board):
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("no qemu-system-arm: apt install qemu-system-arm")
    with QemuBoard.from_folder(built(projects_root, board)) as qemu, SerialLink(qemu.port) as link:
        assert trained(Device(link, PATIENCE), *demo_lessons()) == simulated_state(STEPS)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(
    "board", drawn_by_commit(("bbc-microbit-v2", "nucleo-f303re", "rpi-pico-2"), 1)
)
def test_a_state_of_many_pages_is_saved_until_all_places_were_erased(projects_root, board):
    device = on_unicorn(built(projects_root, board))
    x, y = lessons()
    target, saved_bytes = load_target(board), device.identity.saved_bytes
    assert saved_bytes > 2 * target.erase_bytes
    places = 2 * (target.slot_bytes // saved_bytes)
    simulator = training_step().simulator(SEED)
    device.reset(SEED)
    for position in range(places + 3):
        device.send_sample(x[0].tobytes())
        device.train(int(y[0]), position, Rate(RATE.mult_q31, RATE.shift))
        simulator.train(x[:1], y[:1], [RATE])
        assert device.save().number == position + 1
        device.restart()
        assert device.identify().position == position + 1
        assert device.read_state() == simulator.save()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_qemus_microbit_saves_by_its_own_flash_controller(projects_root):
    """By others, it has the UART and the flash controller of all nRF5 boards."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("no qemu-system-arm: apt install qemu-system-arm")
    folder = built(projects_root, "bbc-microbit", step=quick_step())
    x, y = quick_lessons()
    with QemuBoard.from_folder(folder) as qemu, SerialLink(qemu.port) as link:
        device = Device(link, PATIENCE)
        assert trained(device, x[:40], y[:40]) == quick_state(40)
        for number in (1, 2, 3):  # one page of flash each
            assert device.save().number == number
        device.restart()
        assert device.identify().position == 40
        assert device.read_state() == quick_state(40)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("compiler", drawn_by_commit(("gcc", "zig"), 1))
def test_the_pis_program_ends_with_the_simulations_bits(projects_root, compiler):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: apt install qemu-user")
    if not has_compiler("raspberry-pi", compiler):
        pytest.skip(f"no {compiler} for aarch64: apt install gcc-aarch64-linux-gnu")
    folder = built(projects_root, "raspberry-pi", compiler)
    with as_program(folder, ("qemu-aarch64",)) as device:
        assert trained(device, *demo_lessons()) == simulated_state(STEPS)


@pytest.mark.slow
def test_the_hosts_program_ends_with_the_simulations_bits(projects_root):
    with as_program(built(projects_root, "native")) as device:
        assert trained(device, *demo_lessons()) == simulated_state(STEPS)


@pytest.mark.parametrize("threads", ["0", "-1", "65", "4x", ""])
def test_threads_that_are_no_number_of_them_are_a_sentence(projects_root, threads):
    program = built(projects_root, "native") / "build" / "firmware"
    command = [program, "--threads", threads]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("[--state FILE] [--threads 1..64]\n")


@pytest.mark.draws(2)
@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(
    ("board", "compiler", "optimize"),
    dict.fromkeys((*OF_EACH_COMPILER, *drawn_by_commit(OTHERWISE_BUILT, 1))),
)
def test_compilers_and_optimisation_do_not_change_the_bits(
    projects_root, board, compiler, optimize
):
    if not has_compiler(board, compiler):
        pytest.skip(f"no {compiler} for {board}: apt install gcc-arm-none-eabi")
    device = on_unicorn(built(projects_root, board, compiler, optimize))
    count = min(STEPS, 100 if IS_STRESS else 2)
    x, y = lessons()
    assert trained(device, x[:count], y[:count]) == simulated_state(count)
    device.save()
    device.link.machine.power_cut()
    device.link.machine.power_on()
    assert device.identify().position == count
    assert device.read_state() == simulated_state(count)
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


def deep_network(blocks: int) -> Graph:
    """So many blocks of a mobile network, of few channels."""
    net = Network((6, 6, 4), 3)
    y = net.x
    for _ in range(blocks):
        inner = net.depthwise(net.conv(y, 8, relu=True), same(3), relu=True)
        y = net.add(net.conv(inner, 4), y)
    return replace(net.graph(net.conv(net.mean(y), 4)), name=f"deep_{blocks}")


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_deep_networks_take_the_stack_of_shallow_ones(projects_root, compiler):
    """Of addresses none is kept there: of 700 bytes mobilenet's step ran over its stack."""
    if not has_compiler("mps2-an386", compiler):
        pytest.skip(f"no {compiler} for mps2-an386: apt install gcc-arm-none-eabi")
    used = []
    for blocks in (2, 12):
        step = prepare(deep_network(blocks), "full")
        device = on_unicorn(built(projects_root, "mps2-an386", compiler, step=step))
        x, y, simulator = simulated(step, 6, 1)
        assert trained(device, x, y) == simulator.save()
        used.append(device.statistics().stack_used_bytes)
    assert used[1] - used[0] <= 32


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", drawn_by_commit(TWO_BODIES, 1))
def test_tables_products_and_joins_end_with_the_simulations_bits(projects_root, board):
    step = prepare(modern_network(), "full")
    x, y, simulator = simulated(step, 24, 4)
    device = on_unicorn(built(projects_root, board, step=step))
    assert trained(device, x, y) == simulator.save()


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(("name", "board"), with_a_board(NETWORKS))
def test_networks_of_all_operators_end_with_the_simulations_bits(projects_root, board, name):
    network, scheme = NETWORKS[name]
    step = prepare(network(0), scheme)
    x, y, simulator = simulated(step, 24, 3)
    device = on_unicorn(built(projects_root, board, step=step))
    assert trained(device, x, y) == simulator.save()


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", ["nucleo-f446re", "rpi-pico"])
def test_a_stage_upon_its_input_ends_with_the_simulations_bits(projects_root, board):
    """Which needs scratch with the portable bodies of a Pico, and others with the DSP extension."""
    step = prepare(prelu_network(), "last:1")
    pairs = [
        p for s in step.plan.segments for p in zip(s.stages, s.tensors[s.sources :], strict=True)
    ]
    assert "DepthwiseConv2D" in {type(s.node.op).__name__ for s, t in pairs if t.over}
    x, y, simulator = simulated(step, 12, 4)
    device = on_unicorn(built(projects_root, board, step=step))
    assert trained(device, x, y) == simulator.save()


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_any_number_of_threads_on_the_pi_ends_with_the_simulations_bits(projects_root, threads):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: apt install qemu-user")
    step = prepare(threaded_network(), "full")
    x, y, simulator = simulated(step, 10, 4)
    folder = built(projects_root, "raspberry-pi", step=step)
    with as_program(folder, ("qemu-aarch64",), threads) as device:
        assert trained(device, x, y) == simulator.save()
        (program,) = [p for p in Path("/proc").glob("[0-9]*") if is_running(p, folder)]
        assert len(list((program / "task").iterdir())) >= threads  # qemu has some of its own


def is_running(process: Path, folder: Path) -> bool:
    """Whether a process runs a project's program."""
    try:
        return "qemu" in (process / "comm").read_text() and (process / "cwd").resolve() == folder
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_a_transformer_on_the_pi_ends_with_the_simulations_bits(projects_root):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: apt install qemu-user")
    step = prepare(transformer_network(), "full")
    x, y, simulator = simulated(step, 10, 4)
    with qemu_user(built(projects_root, "raspberry-pi", step=step)) as device:
        assert trained(device, x, y) == simulator.save()


@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("bias_bits", [16, 32])
def test_biases_of_all_widths_end_with_the_simulations_bits(projects_root, bias_bits):
    """Saved on the board, too, and taken up again."""
    scheme = UpdateScheme(f"biases of {bias_bits}", None, {}, None, bias_bits=bias_bits)
    step = prepare(modern_network(), scheme)
    x, y, simulator = simulated(step, 24, 4)
    device = on_unicorn(built(projects_root, "nucleo-f446re", step=step))
    assert trained(device, x, y) == simulator.save()
    device.save()
    device.link.machine.power_cut()
    device.link.machine.power_on()
    assert device.identify().position == len(y)
    assert device.read_state() == simulator.save()


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(("dtype", "board"), with_a_board(("int8", "int16"), ALL_BODIES))
def test_gradients_of_both_widths_end_with_the_simulations_bits(projects_root, board, dtype):
    """Windows of all sizes, and more positions than int32 sums of int16 gradients hold."""
    scheme = UpdateScheme(f"all of {dtype}", None, {}, None)
    step = prepare(mobile_network(), scheme, gradient_dtype=dtype)
    x, y, simulator = simulated(step, 12, 4)
    device = on_unicorn(built(projects_root, board, step=step))
    assert trained(device, x, y) == simulator.save()
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", drawn_by_commit(ALL_BODIES, 1))
def test_a_gate_skips_the_same_samples_on_a_board(projects_root, board):
    """Saved on the board, too, and taken up again."""
    scheme = UpdateScheme("gated", None, {}, 2)
    step = prepare(modern_network(), scheme, gate=1)
    x, y, simulator = simulated(step, 30, 4)
    device = on_unicorn(built(projects_root, board, step=step))
    assert trained(device, x, y) == simulator.save()
    assert 5 < simulator.gate[1] < 25
    device.save()
    device.link.machine.power_cut()
    device.link.machine.power_on()
    assert device.identify().position == len(y)
    assert device.read_state() == simulator.save()


# ---- a ladder of fronts ----


def with_ladder() -> TrainingStep:
    """Three levels, of which the choice drifts, and a gate behind them."""
    scheme = UpdateScheme("last", 1, {}, 1)
    training = prepare(mobile_network(), scheme, gate=1).plan.training
    return prepare(mobile_network(), scheme, gate=1, ladder=ladder_of(training), drift=True)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", drawn_by_commit(ALL_BODIES, 1))
def test_a_board_chooses_the_same_fronts(projects_root, board):
    """Saved on the board, too, and taken up again."""
    step = with_ladder()
    x, y, simulator = simulated(step, 40, step.plan.training.classes)
    device = on_unicorn(built(projects_root, board, step=step))
    assert trained(device, x, y) == simulator.save()
    assert min(simulator.level_samples) > 0
    assert 0 < simulator.gate[1] < len(y)
    assert Drift.of(simulator.words()).offset != 0
    device.save()
    device.link.machine.power_cut()
    device.link.machine.power_on()
    assert device.identify().position == len(y)
    assert device.read_state() == simulator.save()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_the_pi_chooses_the_same_fronts(projects_root):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: apt install qemu-user")
    step = with_ladder()
    x, y, simulator = simulated(step, 40, step.plan.training.classes)
    with qemu_user(built(projects_root, "raspberry-pi", step=step)) as device:
        assert trained(device, x, y) == simulator.save()


# ---- MCUNet ----


@lru_cache(maxsize=2)
def mcunet(path: Path, scheme: str) -> TrainingStep:
    return prepare(path, scheme, classes=10)


@lru_cache(maxsize=2)
def mcunet_expected(path: Path, scheme: str) -> tuple[np.ndarray, np.ndarray, bytes]:
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (MCUNET_STEPS, 128, 128, 3)).astype(np.int8)
    y = random.integers(0, 10, MCUNET_STEPS)
    simulator = mcunet(path, scheme).simulator(SEED)
    simulator.train(x, y, [RATE] * MCUNET_STEPS)
    return x, y, simulator.save()


def check_mcunet(
    shared: Path, root: Path, board: str, scheme: str, train: Callable[[Path], Iterator[Device]]
) -> None:
    path = shared / "models" / "mcunet-5fps.int8.tflite"
    x, y, expected = mcunet_expected(path, scheme)
    folder = built(root, board, step=mcunet(path, scheme))
    with train(folder) as device:
        assert trained(device, x, y) == expected


@contextmanager
def unicorn(folder: Path) -> Iterator[Device]:
    yield on_unicorn(folder)


@contextmanager
def qemu_system(folder: Path) -> Iterator[Device]:
    with QemuBoard.from_folder(folder) as qemu, SerialLink(qemu.port) as link:
        yield Device(link, PATIENCE)


@contextmanager
def qemu_user(folder: Path) -> Iterator[Device]:
    with as_program(folder, ("qemu-aarch64",)) as device:
        yield device


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("scheme", MCUNET_SCHEMES)
@pytest.mark.parametrize(
    "board", drawn_by_commit(("stm32f746g-disco", "mps2-an386", "rpi-pico"), 1)
)
def test_mcunet_on_unicorn(shared, projects_root, board, scheme):
    check_mcunet(shared, projects_root, board, scheme, unicorn)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.shared
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("scheme", MCUNET_SCHEMES)
@pytest.mark.parametrize("board", ["mps2-an386", *drawn_by_commit(("mps2-an500", "mps3-an547"), 1)])
def test_mcunet_on_qemu(shared, projects_root, board, scheme):
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("no qemu-system-arm: apt install qemu-system-arm")
    check_mcunet(shared, projects_root, board, scheme, qemu_system)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("scheme", MCUNET_SCHEMES)
def test_mcunet_as_the_pis_program(shared, projects_root, scheme):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: apt install qemu-user")
    check_mcunet(shared, projects_root, "raspberry-pi", scheme, qemu_user)
