"""The STM32L475 and STM32H743, whose flash has checksums, refuse what the chips refuse."""

import random
from pathlib import Path

import pytest
from mcutrain_host.manifest import Emulation, Uart
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import FlashMemory, FlashTiming, stacked_sectors
from mcutrain_host.virtual.machine import Machine, Stop
from mcutrain_host.virtual.stm32_chip import STM32
from mcutrain_host.virtual.stm32_flash import KEYS
from mcutrain_host.virtual.stm32_h7 import PwrH7, RccH7, Stm32H7Flash
from mcutrain_host.virtual.stm32_l4 import PwrL4, RccL4, Stm32L4Flash

from tests.host.boards import described
from tests.host.virtual.programs import UART, program
from tests.host.virtual.test_stm32_flash import Clock

KB = 1024
ORIGIN = 0x08000000
L475 = described("l475", emulate=Emulation(unicorn="stm32l475"), uart=UART)
H743 = described(
    "h743",
    "cortex-m7",
    emulate=Emulation(unicorn="stm32h743"),
    uart=Uart(name="USART3", baud=115200, pins="PD8 sends, PD9 receives"),
)
L4, H7 = Stm32L4Flash, Stm32H7Flash


class Core(Clock):
    """A board whose core may mask faults, and notes exceptions."""

    ignores_bus_faults = False

    def __init__(self) -> None:
        super().__init__()
        self.exceptions: list[int] = []

    def interrupt(self, number: int) -> None:
        self.exceptions.append(number)


def memory(name: str, content: bytes, word_bytes: int) -> FlashMemory:
    sectors = STM32[name].sectors
    data = bytearray(content.ljust(sum(sectors), b"\xff"))
    return FlashMemory(ORIGIN, data, stacked_sectors(sectors), word_bytes)


def l4(content: bytes = b"", opened: bool = True) -> L4:
    flash = L4(Core(), memory("stm32l475", content, 8), FlashTiming(4, 100))
    for key in KEYS if opened else ():
        flash.store(L4.KEYR, key)
    return flash


def h7(content: bytes = b"", bank: int = 0, opened: bool = True) -> H7:
    flash = H7(Core(), memory("stm32h743", content, 32), FlashTiming(4, 100))
    for key in KEYS if opened else ():
        flash.store(0x100 * bank + H7.KEYR, key)
    return flash


def test_two_words_are_programmed_at_once() -> None:
    flash = l4()
    flash.store(L4.CR, L4.PROGRAM)
    flash.program(ORIGIN + 8, 4, 0x11111111)
    assert not flash.load(L4.SR) & L4.BUSY
    flash.program(ORIGIN + 12, 4, 0x22222222)
    assert flash.load(L4.SR) & L4.BUSY
    assert flash.memory.bytes[:16] == b"\xff" * 8 + b"\x11" * 4 + b"\x22" * 4


def test_half_of_64_bits_is_lost_by_a_reset() -> None:
    flash = l4()
    flash.store(L4.CR, L4.PROGRAM)
    flash.program(ORIGIN, 4, 0)
    flash.reset()
    assert flash.memory.bytes[:8] == b"\xff" * 8


@pytest.mark.parametrize(
    ("control", "writes", "error"),
    [
        (0, [(0, 4)], L4.SEQUENCE),
        (L4.PROGRAM, [(0, 2)], L4.SIZE),
        (L4.PROGRAM, [(4, 4)], L4.ALIGNMENT),
        (L4.PROGRAM, [(0, 4), (8, 4)], L4.ALIGNMENT),
        (L4.PROGRAM, [(16, 4), (20, 4)], L4.NOT_ERASED),
    ],
)
def test_what_the_l4s_manual_forbids_changes_nothing(control, writes, error) -> None:
    content = b"\xff" * 16 + b"\x5a" * 8
    flash = l4(content)
    flash.store(L4.CR, control)
    for offset, size in writes:
        flash.program(ORIGIN + offset, size, 0x01020304)
    assert flash.load(L4.SR) & L4.ERRORS == error
    assert flash.memory.bytes[:24] == content


@pytest.mark.parametrize(("page", "bank"), [(3, 0), (259, 1)])
def test_only_the_page_of_the_bank_is_erased(page: int, bank: int) -> None:
    flash = l4(b"\0" * (1024 * KB))
    flash.store(L4.CR, bank << 11 | 3 << 3 | L4.ERASE)
    flash.store(L4.CR, bank << 11 | 3 << 3 | L4.ERASE | L4.START)
    flash.wait()
    assert flash.memory.bytes.count(b"\xff") == 2 * KB
    assert flash.memory.bytes[2 * KB * page : 2 * KB * (page + 1)] == b"\xff" * 2 * KB


def test_a_locked_l4_does_not_change() -> None:
    flash = l4(b"\0" * 64, opened=False)
    flash.store(L4.CR, L4.ERASE | L4.START)
    assert flash.memory.bytes[:64] == b"\0" * 64
    assert flash.load(L4.CR) & L4.LOCK


def test_the_data_cache_is_reset_only_while_it_is_off() -> None:
    with pytest.raises(BoardFault, match="resets the data cache while it is on"):
        l4().store(L4.ACR, L4.DATA_CACHE | L4.DATA_CACHE_RESET)


def test_a_word_with_a_wrong_checksum_is_an_nmi_that_says_where() -> None:
    flash = l4()
    flash.read_broken(0x80010)
    assert flash.board.exceptions == [2]
    assert flash.load(L4.ECCR) == L4.DETECTED | 0x80010
    flash.store(L4.ECCR, L4.DETECTED)
    assert not flash.load(L4.ECCR) & L4.DETECTED


@pytest.mark.parametrize("bank", [0, 1])
def test_eight_words_are_programmed_at_once_by_their_bank(bank: int) -> None:
    flash, at = h7(bank=bank), bank * 1024 * KB
    flash.store(0x100 * bank + H7.CR, H7.PROGRAM)
    for i in range(8):
        flash.program(ORIGIN + at + 4 * i, 4, 0x01010101 * i)
        status = flash.load(0x100 * bank + H7.SR)
        assert bool(status & H7.WAITS) == (i < 7)
        assert bool(status & H7.BUSY) == (i == 7)
    assert flash.memory.bytes[at : at + 32] == b"".join(bytes([i]) * 4 for i in range(8))


def test_words_of_the_other_bank_are_not_programmed() -> None:
    flash = h7(bank=0)
    flash.store(H7.CR, H7.PROGRAM)
    flash.program(ORIGIN + 1024 * KB, 4, 0)
    assert flash.load(0x100 + H7.SR) == H7.SEQUENCE
    assert flash.memory.bytes[1024 * KB :][:4] == b"\xff" * 4


@pytest.mark.parametrize(
    ("writes", "sentence"),
    [
        ([(32, 4)], "not erased"),
        ([(60, 4)], "not erased"),
        ([(4, 4)], "in their order"),
        ([(0, 2)], "in their order"),
        ([(0, 4), (64, 4)], "in their order"),
    ],
)
def test_what_leaves_the_h7_a_wrong_checksum_is_a_sentence(writes, sentence) -> None:
    flash = h7(b"\xff" * 32 + b"\x5a")
    flash.store(H7.CR, H7.PROGRAM)
    for offset, size in writes[:-1]:
        flash.program(ORIGIN + offset, size, 0)
    with pytest.raises(BoardFault, match=sentence):
        flash.program(ORIGIN + writes[-1][0], writes[-1][1], 0)


def test_a_part_of_256_bits_is_closed_in_or_lost_by_a_reset() -> None:
    flash = h7()
    flash.store(H7.CR, H7.PROGRAM)
    flash.program(ORIGIN, 4, 0)
    with pytest.raises(BoardFault, match="a part of 256 bits"):
        flash.store(H7.CR, H7.LOCK)
    flash.reset()
    assert flash.memory.bytes[:32] == b"\xff" * 32


@pytest.mark.parametrize("sector", [2, 10])
def test_only_the_sector_of_the_bank_is_erased(sector: int) -> None:
    bank = sector // 8
    flash = h7(b"\0" * (2048 * KB), bank)
    flash.store(0x100 * bank + H7.CR, 2 << 8 | H7.ERASE)
    flash.store(0x100 * bank + H7.CR, 2 << 8 | H7.ERASE | H7.START)
    flash.wait()
    assert flash.memory.bytes.count(b"\xff") == 128 * KB
    assert flash.memory.bytes[128 * KB * sector] == 0xFF


def test_a_word_with_a_wrong_checksum_is_a_bus_fault_unless_these_are_ignored() -> None:
    flash = h7(b"\x5a" * 32)
    with pytest.raises(BoardFault, match="0x8000000, which a power cut left half-changed"):
        flash.read_broken(0)
    flash.board.ignores_bus_faults = True
    flash.read_broken(0)
    first = bytes(flash.memory.bytes[:32])
    flash.read_broken(0)
    assert len({b"\x5a" * 32, first, bytes(flash.memory.bytes[:32])}) == 3
    assert flash.load(H7.SR) & H7.DETECTED


def test_a_power_cut_breaks_words_that_are_half_changed_and_an_erase_mends_them() -> None:
    found = set()
    for seed in range(20):
        flash = h7(b"\x5a" * (128 * KB))
        flash.store(H7.CR, H7.ERASE)
        flash.store(H7.CR, H7.ERASE | H7.START)
        flash.memory.power_cut(flash.board.now, random.Random(seed))
        found.add(len(flash.memory.broken))
        assert all(
            flash.memory.bytes[w : w + 32] not in (b"\x5a" * 32, b"\xff" * 32)
            for w in flash.memory.broken
        )
        flash.memory.erase_now(0)
        assert flash.memory.broken == set()
    assert {0, 4096} <= found


@pytest.mark.parametrize(
    ("cr", "pllcfgr", "wait_states", "sentence"),
    [
        (1 << 8, 1 << 24 | 10 << 8 | 2, 3, "needs 4 wait states"),
        (0, 1 << 24 | 10 << 8 | 2, 4, "HSI16, which is not on"),
        (1 << 8, 10 << 8 | 2, 4, "PLLREN is off"),
        (1 << 8, 1 << 24 | 11 << 8 | 2, 5, "the core is set to 88000000 Hz, and bears 80000000"),
        (1 << 8, 1 << 24 | 40 << 8 | 2, 4, "oscillator is set to 640000000 Hz"),
        (1 << 8, 1 << 24 | 7 << 4 | 10 << 8 | 2, 4, "input is 2000000 Hz"),
        (1 << 8, 1 << 24 | 10 << 8 | 3, 4, "crystal"),
    ],
)
def test_clocks_that_the_l4_does_not_bear_are_noticed(cr, pllcfgr, wait_states, sentence) -> None:
    rcc = RccL4(STM32["stm32l475"].limits)
    rcc.flash_wait_states = lambda: wait_states
    rcc.store(RccL4.PLLCFGR, pllcfgr)
    rcc.store(RccL4.CR, rcc.load(RccL4.CR) | cr | 1 << 24)
    with pytest.raises(BoardFault, match=sentence):
        rcc.store(RccL4.CFGR, 3)


def h7_clocks(voltage: int = 3, waits: int = 0x22) -> RccH7:
    rcc = RccH7(STM32["stm32h743"].limits)
    rcc.flash_wait_states, rcc.voltage = lambda: waits, lambda: voltage
    rcc.store(RccH7.PLLCKSELR, 10 << 4)
    rcc.store(RccH7.PLL1DIVR, 1 << 9 | 124)
    rcc.store(RccH7.PLLCFGR, 1 << 16 | 2 << 2)
    return rcc


def test_the_h7s_clocks_are_what_was_set() -> None:
    rcc = h7_clocks()
    rcc.store(RccH7.CR, 0x83 | 1 << 24)
    rcc.store(RccH7.D1CFGR, 4 << 4 | 8)
    rcc.store(RccH7.D2CFGR, 4 << 8 | 4 << 4)
    rcc.store(RccH7.D3CFGR, 4 << 4)
    rcc.store(RccH7.CFGR, 3)
    assert rcc.load(RccH7.CFGR) == 3 << 3 | 3
    assert (rcc.core_hz, rcc.bus_hz) == (400_000_000, 200_000_000)
    assert (rcc.apb1_hz, rcc.apb2_hz) == (100_000_000, 100_000_000)
    assert not rcc.from_reset_clock


@pytest.mark.parametrize(
    ("voltage", "waits", "d1", "d2", "sentence"),
    [
        (1, 0x22, 4 << 4 | 8, 0x440, "the core is set to 400000000 Hz, and bears 200000000"),
        (3, 0x21, 4 << 4 | 8, 0x440, "needs LATENCY 2 and WRHIGHFREQ 2"),
        (3, 0x12, 4 << 4 | 8, 0x440, "needs LATENCY 2 and WRHIGHFREQ 2"),
        (3, 0x22, 4 << 4, 0x440, "AXI is set to 400000000 Hz"),
        (3, 0x22, 4 << 4 | 8, 0x040, "an APB is set to 200000000 Hz"),
    ],
)
def test_clocks_that_the_h7_does_not_bear_are_noticed(voltage, waits, d1, d2, sentence) -> None:
    rcc = h7_clocks(voltage, waits)
    rcc.store(RccH7.CR, 0x83 | 1 << 24)
    rcc.values[RccH7.D1CFGR], rcc.values[RccH7.D2CFGR], rcc.values[RccH7.D3CFGR] = d1, d2, 4 << 4
    with pytest.raises(BoardFault, match=sentence):
        rcc.store(RccH7.CFGR, 3)


def test_the_h7s_pll_is_not_set_up_while_it_runs() -> None:
    rcc = h7_clocks()
    rcc.store(RccH7.CR, 0x83 | 1 << 24)
    for word in (RccH7.PLLCKSELR, RccH7.PLLCFGR, RccH7.PLL1DIVR):
        with pytest.raises(BoardFault, match="while the PLL runs"):
            rcc.store(word, 0)


def test_the_supply_is_said_once_and_before_the_voltage() -> None:
    power = PwrH7(STM32["stm32h743"].limits)
    power.power_on()
    with pytest.raises(BoardFault, match="before it says the supply"):
        power.store(PwrH7.D3CR, 3 << 14)
    with pytest.raises(BoardFault, match="another supply than the LDO"):
        power.store(PwrH7.CR3, PwrH7.BYPASS)
    power.store(PwrH7.CR3, PwrH7.LDO)
    power.reset()
    assert power.load(PwrH7.CSR1) & PwrH7.ACTIVE_READY
    with pytest.raises(BoardFault, match="says twice"):
        power.store(PwrH7.CR3, PwrH7.LDO)
    power.store(PwrH7.D3CR, 3 << 14)
    assert power.voltage == 3
    power.power_on()
    assert power.load(PwrH7.CR3) & PwrH7.UPDATE


def test_the_l4s_voltage_stays() -> None:
    with pytest.raises(BoardFault, match="the regulator's range"):
        PwrL4(STM32["stm32l475"].limits).store(PwrL4.CR1, 0x400)


@pytest.mark.parametrize(
    ("board", "address", "instruction", "sentence"),
    [
        (L475, 0x48000400, "ldr r1, [r0]", "GPIOB while its clock is off"),
        (L475, 0x40004400, "str r0, [r0]", "USART2 while its clock is off"),
        (L475, 0x40007000, "ldr r1, [r0]", "PWR while its clock is off"),
        (L475, 0x40010000, "str r0, [r0]", "SYSCFG while its clock is off"),
        (L475, 0x20018000, "ldr r1, [r0]", "where the chip has nothing"),
        (H743, 0x58020C00, "ldr r1, [r0]", "GPIOD while its clock is off"),
        (H743, 0x40004800, "str r0, [r0]", "USART3 while its clock is off"),
        (H743, 0x30000000, "ldr r1, [r0]", "where the chip has nothing"),
        (H743, 0x24080000, "ldr r1, [r0]", "where the chip has nothing"),
    ],
)
def test_each_mistake_has_its_sentence(
    tmp_path: Path, board, address: int, instruction: str, sentence: str
) -> None:
    text = f"    function start\n    ldr r0, ={address:#x}\n    {instruction}\n    b .\n"
    with pytest.raises(BoardFault, match=sentence):
        Machine(board, program(tmp_path, text)).run(until_instructions=10)


READS = """
    .word nmi
    function nmi
    ldr r3, =0x40022018
    ldr r2, =0x80000000
    str r2, [r3]
    ldr r2, =0x20000000
    ldr r3, [r2]
    adds r3, #1
    str r3, [r2]
    bx lr
    function start
    ldr r2, =0x20000000
    movs r3, #0
    str r3, [r2]
    movs r3, #77
    ldr r0, =0x08020000
    cmp r3, r3
    ldr r1, [r0]
    ldr r4, [r0, #8]
    ldr r5, [r0, #4]
    beq 1f
    movs r3, #0
1:
    str r3, [r2, #4]
    str r1, [r2, #8]
    b .
"""


def test_the_core_takes_an_nmi_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """Registers and flags are those from before, and the word is read as it is."""
    machine = Machine(L475, program(tmp_path, READS))
    machine.chip.flash.put(0x08020000, bytes(range(16)))
    machine.chip.flash.broken = {0x20000}
    machine.reset()
    assert machine.run(until_instructions=60) is Stop.INSTRUCTIONS
    counted, kept, word = (machine.read(0x20000000 + 4 * i, 4) for i in range(3))
    assert (counted, kept) == (b"\1\0\0\0", b"\x4d\0\0\0")
    assert word == bytes(range(4))


GUARDED = """
    function start
    {guard}
    ldr r0, =0x08020000
    ldr r1, [r0, #32]
    b .
"""
MASK, IGNORE = "cpsid f", "ldr r2, =0xE000ED14\n    ldr r3, =0x40300\n    str r3, [r2]"


@pytest.mark.parametrize("guard", ["", MASK, IGNORE])
def test_a_bus_fault_is_ignored_only_if_all_faults_are_masked(tmp_path: Path, guard: str) -> None:
    for text, ends in (
        (GUARDED.format(guard=guard), True),
        (GUARDED.format(guard=MASK + "\n    " + IGNORE), False),
    ):
        machine = Machine(H743, program(tmp_path, text, "cortex-m7"))
        machine.chip.flash.broken = {0x20020}
        machine.reset()
        if ends:
            with pytest.raises(BoardFault, match="gets a bus fault"):
                machine.run(until_instructions=20)
        else:
            assert machine.run(until_instructions=20) is Stop.INSTRUCTIONS


def test_the_bootloader_programs_each_word_once() -> None:
    chip = Machine(H743).chip
    assert chip._loader_write(ORIGIN, bytes(8))
    assert not chip._loader_write(ORIGIN + 8, bytes(8))
    assert chip._loader_write(ORIGIN + 32, bytes(8))
    assert not chip._loader_write(ORIGIN + 32, bytes(8))
