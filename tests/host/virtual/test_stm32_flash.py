import random
from collections.abc import Callable
from pathlib import Path

import pytest
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import FlashMemory, FlashTiming, stacked_sectors
from mcutrain_host.virtual.machine import Machine, Stop
from mcutrain_host.virtual.stm32_chip import STM32
from mcutrain_host.virtual.stm32_flash import (
    ALIGNMENT,
    BUSY,
    CR,
    ERASE,
    KEYR,
    KEYS,
    LOCK,
    PARALLELISM,
    PROGRAM,
    SEQUENCE,
    SR,
    START,
    Stm32Flash,
)

from tests.host.virtual.programs import F446, program

WORDS = 2 << 8
KB = 1024


class Clock:
    """A board of which only the time matters."""

    def __init__(self) -> None:
        self.time = 0
        self.random = random.Random(0)

    @property
    def now(self) -> int:
        self.time += 1
        return self.time

    def skip(self, instructions: int) -> None:
        self.time += instructions

    def between(self, action: Callable[[], None]) -> None:
        action()

    def request_reset(self) -> None: ...

    def idle(self) -> None: ...

    def code_changed(self) -> None: ...

    def operation_started(self, kind: str) -> None: ...


def controller(content: bytes = b"") -> Stm32Flash:
    sectors = stacked_sectors(STM32["stm32f446"].sectors)
    data = bytearray(content.ljust(512 * KB, b"\xff"))
    return Stm32Flash(Clock(), FlashMemory(0x08000000, data, sectors), FlashTiming(4, 100), False)


def unlock(flash: Stm32Flash) -> None:
    for key in KEYS:
        flash.store(KEYR, key)


def status(flash: Stm32Flash) -> int:
    while flash.load(SR) & BUSY:
        pass
    return flash.load(SR)


@pytest.mark.parametrize(
    ("chip", "sizes"),
    [
        ("stm32f405", [16, 16, 16, 16, 64, 128, 128, 128, 128, 128, 128, 128]),
        ("stm32f446", [16, 16, 16, 16, 64, 128, 128, 128]),
        ("stm32f746", [32, 32, 32, 32, 128, 256, 256, 256]),
    ],
)
def test_sectors_are_those_of_the_manual(chip: str, sizes: list[int]) -> None:
    assert [size // KB for size in STM32[chip].sectors] == sizes


def test_locked_flash_does_not_change() -> None:
    flash = controller(b"\0" * 64)
    flash.store(CR, ERASE | START)
    assert flash.program(0x08000100, 4, 0) == b"\xff" * 4
    assert status(flash) == SEQUENCE
    assert flash.memory.bytes[:64] == b"\0" * 64
    assert flash.load(CR) & LOCK


@pytest.mark.parametrize("keys", [(1,), (KEYS[0], 1), (KEYS[1],), (*KEYS, KEYS[0])])
def test_a_wrong_key_locks_until_the_next_reset(keys: tuple[int, ...]) -> None:
    flash = controller()
    for key in keys[:-1]:
        flash.store(KEYR, key)
    with pytest.raises(BoardFault, match="not the next key"):
        flash.store(KEYR, keys[-1])
    with pytest.raises(BoardFault):
        flash.store(KEYR, KEYS[0])
    flash.reset()
    unlock(flash)
    assert not flash.load(CR) & LOCK


def test_only_the_chosen_sector_is_erased() -> None:
    flash = controller(b"\0" * (200 * KB))
    unlock(flash)
    flash.store(CR, ERASE | 4 << 3)
    flash.store(CR, ERASE | 4 << 3 | START)
    assert flash.load(SR) & BUSY
    assert status(flash) == 0
    erased = flash.memory.bytes.count(b"\xff", 0, 200 * KB)
    assert erased == 64 * KB
    assert flash.memory.bytes[64 * KB : 128 * KB] == b"\xff" * (64 * KB)


def test_programming_needs_the_set_width_and_alignment() -> None:
    flash = controller()
    unlock(flash)
    flash.store(CR, PROGRAM | WORDS)
    assert flash.program(0x08000000, 2, 0) == b"\xff\xff"
    assert status(flash) == PARALLELISM
    flash.store(SR, PARALLELISM)
    assert flash.program(0x08000002, 4, 0) == b"\xff" * 4
    assert status(flash) == ALIGNMENT
    flash.store(SR, ALIGNMENT)
    assert flash.program(0x08000004, 4, 0x12345678) == b"\x78\x56\x34\x12"
    assert status(flash) == 0


def test_what_is_not_erased_cannot_be_programmed() -> None:
    flash = controller(b"\x0f")
    unlock(flash)
    flash.store(CR, PROGRAM | WORDS)
    with pytest.raises(BoardFault, match="not erased"):
        flash.program(0x08000000, 4, 0)


def test_a_power_cut_during_an_erase_leaves_old_and_erased_bits() -> None:
    leftovers = set()
    for seed in range(20):
        flash = controller(b"\x5a" * (16 * KB) + b"\x5a" * 64)
        unlock(flash)
        flash.store(CR, ERASE | START)
        flash.memory.power_cut(flash.board.now, random.Random(seed))
        sector = bytes(flash.memory.bytes[: 16 * KB])
        assert all(byte & 0x5A == 0x5A for byte in sector)
        assert flash.memory.bytes[16 * KB :][:64] == b"\x5a" * 64
        leftovers.add(sector)
    assert b"\x5a" * (16 * KB) in leftovers
    assert b"\xff" * (16 * KB) in leftovers
    assert len(leftovers) > 5


def test_a_finished_operation_survives_the_power_cut() -> None:
    flash = controller(b"\0" * 64)
    unlock(flash)
    flash.store(CR, ERASE | START)
    assert status(flash) == 0
    flash.memory.power_cut(flash.board.now, random.Random(0))
    assert flash.memory.bytes[:64] == b"\xff" * 64


STORES = """
    function start
    ldr r0, =0x40023C00
    ldr r1, =0x45670123
    {unlock}
    ldr r1, =0xCDEF89AB
    {unlock}
    movw r1, #0x201
    str r1, [r0, #0x10]
    ldr r2, =0x08020000
    ldr r1, =0x11223344
    str r1, [r2], #4
    str r1, [r2], #4
    ldr r3, [r2, #-8]
    b .
"""


@pytest.mark.parametrize("unlocked", [True, False])
def test_stores_of_the_core_reach_the_flash_only_if_it_is_open(
    tmp_path: Path, unlocked: bool
) -> None:
    text = STORES.format(unlock="str r1, [r0, #4]" if unlocked else "nop")
    machine = Machine(F446, program(tmp_path, text))
    machine.run(until_instructions=30)
    content = machine.read(0x08020000, 12)
    assert content == (b"\x44\x33\x22\x11" * 2 if unlocked else b"\xff" * 8) + b"\xff" * 4
    assert machine.cpu.engine.reg_read(69) == int.from_bytes(content[:4], "little")  # r3
    assert machine.instructions == 30


def test_power_can_be_cut_within_a_word(tmp_path: Path) -> None:
    image = program(tmp_path, STORES.format(unlock="str r1, [r0, #4]"))
    seen = set()
    for seed in range(12):
        machine = Machine(F446, image, seed=seed)
        machine.cut_during("program", 1)
        assert machine.run() is Stop.POWER_CUT
        assert machine.read(0x08020000, 4) == b"\x44\x33\x22\x11"
        word = int.from_bytes(machine.read(0x08020004, 4), "little")
        assert word & 0x11223344 == 0x11223344
        seen.add(word)
    assert len(seen) > 3
