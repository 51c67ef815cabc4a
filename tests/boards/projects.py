"""Firmware of the demo's network for any board, generated and built once for all tests."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.build import build, find_toolchain
from mcutrain_host.errors import BuildError

from mcutrain import demo
from mcutrain.codegen import Interface
from mcutrain.codegen.firmware import compile_facts
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import load_target
from tests.drawing import drawn_by_commit
from tests.simulation.networks import residual_network, samples

CHIPS = (
    "arduino-nano-33-ble",
    "bbc-microbit-v2",
    "mps2-an386",
    "mps2-an500",
    "netduinoplus2",
    "nucleo-f303re",
    "nucleo-f401re",
    "nucleo-f446re",
    "rpi-pico",
    "rpi-pico-2",
    "rpi-pico-2-usb",
    "rpi-pico-usb",
    "stm32f746g-disco",
)
TOO_SMALL_FOR_THE_DEMO = ("bbc-microbit",)
"""16 KB of SRAM."""
LIKE_ANOTHER = (
    "b-l475e-iot01a",
    "blackpill-f411ce",
    "feather-nrf52840",
    "itsybitsy-nrf52840",
    "nrf52840-dk",
    "nucleo-f411re",
    "nucleo-f446ze",
    "nucleo-f746zg",
    "nucleo-h743zi",
    "nucleo-l476rg",
    "stm32f407g-disc1",
    "xiao-nrf52840",
)
"""Boards with the core and kernels of one above, where a small network shows what is their own:
pins, clocks, flash, and where memory lies."""
ONLY_IN_QEMU = ("mps3-an547",)
"""A core that Unicorn does not have."""
ONE_OF_EACH_BODIES = ("nucleo-f446re", "rpi-pico", "rpi-pico-2", "stm32f746g-disco")
TRAINING_THE_DEMO = (
    *ONE_OF_EACH_BODIES,
    *drawn_by_commit([board for board in CHIPS if board not in ONE_OF_EACH_BODIES], 1),
)
"""Those of CHIPS that train more than the small network: in `make test` one of each core, and
another with each commit. All boards train the small network in test_evidence.py."""
TWO_BODIES = ("nucleo-f446re", "rpi-pico")
"""The kernels of a Cortex-M4 and M7, and those of a Cortex-M0+."""
Lessons = tuple[npt.NDArray[np.int8], npt.NDArray[Any]]
"""Samples as a network takes them, and labels."""
RATE = LearningRate.of(0.03)
SCHEME = "fashion-sparse"
SEED = 1  # what the firmware starts from


def with_a_board(cases: Iterable[str], boards: Sequence[str] = TWO_BODIES) -> list[tuple[str, str]]:
    """Each case on one of the boards, on others with each commit; `make stress` takes all."""
    pairs = [[(case, board) for board in boards] for case in cases]
    return [pair for each in pairs for pair in drawn_by_commit(each, 1)]


@lru_cache(maxsize=4)
def training_step(scheme: str = SCHEME) -> TrainingStep:
    """The demo's network under a scheme."""
    return demo.training_step(demo.network(), scheme)


def built(
    root: Path,
    board: str,
    compiler: str | None = None,
    optimize: str = "-O3",
    step: TrainingStep | None = None,
    interface: Interface | None = None,
) -> Path:
    """A folder with the project and its ELF; other test processes wait for the one that builds it.

    Raises BuildError if there is no such compiler here.
    """
    step = step or training_step()
    kind = f"-{interface.latent}-{interface.remember}" if interface else ""
    kind += "-elastic" if interface and interface.elastic else ""
    kind += "-ladder" if step.plan.ladder else ""
    kind += "-timed" if interface and interface.timing else ""
    kind += "-imprint" if interface and interface.centre else ""
    kind += f"-listen{interface.history}" if interface and interface.listen else ""
    if interface and interface.app:
        kind += f"-{interface.app}{interface.sensor}{interface.keep_samples or ''}"
    folder = root / f"{board}-{compiler}{optimize}-{step.graph.name}-{step.scheme.name}{kind}"
    with (root / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            step.firmware(load_target(board), interface).write(folder)
            build(folder, compiler, optimize)
            (folder / "built").touch()
    return folder


@cache
def has_compiler(board: str, compiler: str) -> bool:
    """Whether the board can be built with it here."""
    try:
        find_toolchain(compile_facts(load_target(board), []), compiler)
    except BuildError:
        return False
    return True


@lru_cache(maxsize=1)
def lessons(count: int = 1000) -> Lessons:
    """Of the demo's sensor."""
    split = demo.deployed(demo.upright(demo.Size(count, 10)))
    run = demo.training_run(training_step(), split, demo.Size(count, 10, 1), 0)
    return run.samples.train(np.arange(count), 0, 0), split.train.y


@lru_cache(maxsize=8)
def simulated_state(count: int, scheme: str = SCHEME) -> bytes:
    """What the host's simulation holds after the first `count` lessons."""
    x, y = lessons()
    simulator = training_step(scheme).simulator(SEED)
    simulator.train(x[:count], y[:count], [RATE] * count)
    return simulator.save()


@lru_cache(maxsize=1)
def quick_step() -> TrainingStep:
    """Of a network whose step is far shorter than the demo's; its head learns."""
    return prepare(residual_network(), "head")


@lru_cache(maxsize=1)
def quick_lessons() -> Lessons:
    return samples(quick_step().graph, 100, 4)


@lru_cache(maxsize=2)
def quick_state(count: int) -> bytes:
    """What the host's simulation of quick_step holds after the first `count` lessons."""
    x, y = quick_lessons()
    simulator = quick_step().simulator(SEED)
    simulator.train(x[:count], y[:count], [RATE] * count)
    return simulator.save()
