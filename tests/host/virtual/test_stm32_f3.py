"""The STM32F303's clocks and flash controller refuse what the chip refuses: RM0316."""

import random
from pathlib import Path

import pytest
from mcutrain_host.manifest import Emulation
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import FlashMemory, FlashTiming, stacked_sectors
from mcutrain_host.virtual.machine import Machine, Stop
from mcutrain_host.virtual.stm32 import ClockLimits
from mcutrain_host.virtual.stm32_chip import STM32
from mcutrain_host.virtual.stm32_f3 import RccF3, Stm32F3Flash
from mcutrain_host.virtual.stm32_flash import KEYS

from tests.host.boards import described
from tests.host.virtual.programs import UART, program
from tests.host.virtual.test_stm32_flash import Clock

F303 = described("f303", emulate=Emulation(unicorn="stm32f303"), uart=UART)
KB = 1024
ORIGIN = 0x08000000
PLL_9 = 7 << 18 | 1 << 15  # 8 MHz * 9
APB1_HALF = 4 << 8
FROM_PLL = 2
Flash = Stm32F3Flash


def controller(content: bytes = b"", opened: bool = True) -> Flash:
    data = bytearray(content.ljust(512 * KB, b"\xff"))
    memory = FlashMemory(ORIGIN, data, stacked_sectors(STM32["stm32f303"].sectors))
    flash = Flash(Clock(), memory, FlashTiming(4, 100))
    for key in KEYS if opened else ():
        flash.store(Flash.KEYR, key)
    return flash


def status(flash: Flash) -> int:
    while flash.load(Flash.SR) & Flash.BUSY:
        pass
    return flash.load(Flash.SR)


def test_pages_are_those_of_the_manual() -> None:
    assert STM32["stm32f303"].sectors == (2 * KB,) * 256


def test_only_the_page_of_the_address_is_erased() -> None:
    flash = controller(b"\0" * (8 * KB))
    flash.store(Flash.CR, Flash.ERASE)
    flash.store(Flash.AR, ORIGIN + 2 * KB)
    flash.store(Flash.CR, Flash.ERASE | Flash.START)
    assert flash.load(Flash.SR) == Flash.BUSY
    assert status(flash) == Flash.DONE
    assert flash.memory.bytes[: 8 * KB] == b"\0" * 2 * KB + b"\xff" * 2 * KB + b"\0" * 4 * KB


def test_locked_flash_does_not_change() -> None:
    flash = controller(b"\0" * 64, opened=False)
    flash.store(Flash.AR, ORIGIN)
    flash.store(Flash.CR, Flash.ERASE | Flash.START)
    assert status(flash) == 0
    assert flash.memory.bytes[:64] == b"\0" * 64
    with pytest.raises(BoardFault, match="which is not open"):
        flash.program(ORIGIN + 64, 2, 0)


def test_locking_asks_for_the_keys_anew() -> None:
    flash = controller()
    flash.store(Flash.CR, Flash.LOCK)
    flash.store(Flash.CR, Flash.PROGRAM)
    assert flash.load(Flash.CR) == Flash.LOCK
    for key in KEYS:
        flash.store(Flash.KEYR, key)
    flash.store(Flash.CR, Flash.PROGRAM)
    assert flash.load(Flash.CR) == Flash.PROGRAM
    with pytest.raises(BoardFault, match="not the next key"):
        flash.store(Flash.KEYR, KEYS[0])


@pytest.mark.parametrize(("address", "size"), [(0, 4), (0, 1), (1, 2)])
def test_only_aligned_halves_of_words_are_programmed(address: int, size: int) -> None:
    flash = controller()
    flash.store(Flash.CR, Flash.PROGRAM)
    with pytest.raises(BoardFault, match="which takes 2 at once"):
        flash.program(ORIGIN + address, size, 0)


def test_what_is_not_erased_is_refused_but_for_zeros() -> None:
    flash = controller(b"\xff\x0f\xff\xff")
    flash.store(Flash.CR, Flash.PROGRAM)
    assert flash.program(ORIGIN, 2, 0x0203) == b"\xff\x0f"
    assert status(flash) == Flash.NOT_ERASED
    flash.store(Flash.SR, Flash.NOT_ERASED)
    assert status(flash) == 0
    assert flash.program(ORIGIN, 2, 0) == b"\0\0"
    assert flash.program(ORIGIN + 2, 2, 0x1234) == b"\x34\x12"
    assert status(flash) == Flash.DONE
    assert flash.memory.bytes[:4] == b"\0\0\x34\x12"


@pytest.mark.parametrize(
    ("control", "sentence"),
    [
        (Flash.START, "without saying what to erase"),
        (Flash.ERASE | Flash.PROGRAM | Flash.START, "without saying what to erase"),
        (Flash.ERASE | Flash.START, "FLASH_AR says 0x0, where no flash is"),
        (1 << 4, "option bytes"),
    ],
)
def test_a_wrong_command_is_a_sentence(control: int, sentence: str) -> None:
    with pytest.raises(BoardFault, match=sentence):
        controller().store(Flash.CR, control)


def test_a_power_cut_within_an_erase_leaves_old_and_erased_bits() -> None:
    leftovers = set()
    for seed in range(20):
        flash = controller(b"\x5a" * (4 * KB))
        flash.store(Flash.AR, ORIGIN)
        flash.store(Flash.CR, Flash.ERASE | Flash.START)
        flash.memory.power_cut(flash.board.now, random.Random(seed))
        page = bytes(flash.memory.bytes[: 2 * KB])
        assert all(byte & 0x5A == 0x5A for byte in page)
        assert flash.memory.bytes[2 * KB : 4 * KB] == b"\x5a" * 2 * KB
        leftovers.add(page)
    assert len(leftovers) > 5


def clocks(wait_states: int = 2) -> RccF3:
    rcc = RccF3(ClockLimits(72_000_000, 36_000_000, 72_000_000))
    rcc.flash_wait_states = lambda: wait_states
    return rcc


def test_the_clocks_are_what_was_set() -> None:
    rcc = clocks()
    assert (rcc.core_hz, rcc.from_reset_clock) == (8_000_000, True)
    rcc.store(RccF3.CFGR, PLL_9 | APB1_HALF)
    rcc.store(RccF3.CR, rcc.load(RccF3.CR) | 1 << 24)
    assert rcc.load(RccF3.CR) >> 25 & 1
    rcc.store(RccF3.CFGR, PLL_9 | APB1_HALF | FROM_PLL)
    assert rcc.load(RccF3.CFGR) >> 2 & 3 == 2
    assert (rcc.core_hz, rcc.apb1_hz, rcc.apb2_hz) == (72_000_000, 36_000_000, 72_000_000)
    assert not rcc.from_reset_clock
    rcc.store(RccF3.CFGR, PLL_9 | APB1_HALF)
    rcc.store(RccF3.CR, 0x83)
    rcc.store(RccF3.CFGR2, 1)
    assert rcc.pll_hz() == 36_000_000
    rcc.store(RccF3.CFGR, 7 << 18)
    assert rcc.pll_hz() == 36_000_000


@pytest.mark.parametrize(
    ("cfgr", "wait_states", "sentence"),
    [
        (PLL_9 | APB1_HALF | FROM_PLL, 1, "needs 2 wait states, and FLASH_ACR says 1"),
        (PLL_9 | FROM_PLL, 2, "APB1 is set to 72000000 Hz, and bears 36000000"),
        (8 << 18 | 1 << 15 | FROM_PLL, 2, "the PLL is set to 80000000 Hz"),
        (1 << 18 | FROM_PLL, 2, "the PLL is set to 12000000 Hz"),
        (7 << 18 | 2 << 15 | FROM_PLL, 2, "crystal"),
    ],
)
def test_clocks_that_the_chip_does_not_bear_are_noticed(
    cfgr: int, wait_states: int, sentence: str
) -> None:
    rcc = clocks(wait_states)
    rcc.store(RccF3.CFGR, cfgr & ~3)
    rcc.store(RccF3.CR, 0x83 | 1 << 24)
    with pytest.raises(BoardFault, match=sentence):
        rcc.store(RccF3.CFGR, cfgr)


def test_the_pll_is_not_set_up_while_it_runs() -> None:
    rcc = clocks()
    rcc.store(RccF3.CFGR, PLL_9)
    rcc.store(RccF3.CR, 0x83 | 1 << 24)
    rcc.store(RccF3.CFGR, PLL_9 | APB1_HALF)
    for word, value in ((RccF3.CFGR, 6 << 18 | 1 << 15), (RccF3.CFGR2, 1)):
        with pytest.raises(BoardFault, match="changes the PLL's settings while the PLL runs"):
            rcc.store(word, value)


STORES = """
    function start
    ldr r0, =0x40022000
    ldr r1, =0x45670123
    str r1, [r0, #4]
    ldr r1, =0xCDEF89AB
    str r1, [r0, #4]
    movs r1, #1
    str r1, [r0, #0x10]
    ldr r2, =0x08020000
    ldr r1, =0x3344
    strh r1, [r2]
    strh r1, [r2, #2]
    ldr r1, =0x5566
    strh r1, [r2]
    ldr r3, [r2]
    ldr r4, [r0, #0xC]
    b .
"""


def test_stores_of_the_core_reach_the_flash_once(tmp_path: Path) -> None:
    machine = Machine(F303, program(tmp_path, STORES))
    assert machine.run(until_instructions=40) is Stop.INSTRUCTIONS
    assert machine.read(0x08020000, 4) == b"\x44\x33\x44\x33"
    assert machine.cpu.engine.reg_read(69) == 0x33443344  # r3
    assert machine.chip.controller.load(Flash.SR) & Flash.NOT_ERASED


@pytest.mark.parametrize(
    ("address", "instruction", "sentence"),
    [
        (0x48000000, "ldr r1, [r0]", "GPIOA while its clock is off"),
        (0x48001C00, "ldr r1, [r0]", "GPIOH while its clock is off"),
        (0x40020000, "ldr r1, [r0]", "where"),
        (0x40004400, "str r0, [r0]", "USART2 while its clock is off"),
        (0x40010000, "str r0, [r0]", "SYSCFG while its clock is off"),
        (0x20010000, "ldr r1, [r0]", "where the chip has nothing"),
        (0x10004000, "ldr r1, [r0]", "where the chip has nothing"),
        (0x1FFFD800, "str r1, [r0]", "read-only"),
        (0x08020000, "str r1, [r0]", "takes 2 at once"),
    ],
)
def test_each_mistake_has_its_sentence(
    tmp_path: Path, address: int, instruction: str, sentence: str
) -> None:
    text = f"    function start\n    ldr r0, ={address:#x}\n    {instruction}\n    b .\n"
    with pytest.raises(BoardFault, match=sentence):
        Machine(F303, program(tmp_path, text)).run(until_instructions=10)


def test_the_rom_says_the_size_of_the_flash() -> None:
    machine = Machine(F303)
    assert machine.read(0x1FFFF7CC, 2) == (512).to_bytes(2, "little")
    stack_pointer, entry = (machine.read(0x1FFFD800 + at, 4) for at in (0, 4))
    assert int.from_bytes(stack_pointer, "little") == 0x20001800
    assert int.from_bytes(entry, "little") == 0x1FFFD901
