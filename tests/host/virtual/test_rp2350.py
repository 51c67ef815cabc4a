"""The RP2350's clocks, pads, flash reader and ROM refuse what the chip refuses."""

from pathlib import Path

import pytest
from mcutrain_host.manifest import Emulation, Uart
from mcutrain_host.virtual import rp2_rom
from mcutrain_host.virtual.board import put_uf2
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.machine import Machine
from mcutrain_host.virtual.rp2 import Pll, Xosc
from mcutrain_host.virtual.rp2350 import Clocks2350, Pads2350, Qmi, Resets2350, Ticks

from tests.host.boards import described
from tests.host.virtual.programs import program
from tests.host.virtual.test_rp2 import uf2

PICO_2 = described(
    "pico2",
    "cortex-m33",
    emulate=Emulation(unicorn="rp2350"),
    uart=Uart(name="UART0", baud=115200, pins="GP0 sends, GP1 receives"),
)
IMAGE = "\n".join(f"    .word {word:#x}" for word in rp2_rom.IMAGE_DEFINITION)
FLASH = 0x10000000


def run(folder: Path, code: str, instructions: int = 60) -> Machine:
    """A program behind an image definition."""
    text = f"    function start\n{code}\n    b .\n    .ltorg\n    .balign 4\n{IMAGE}\n"
    machine = Machine(PICO_2, program(folder, text, "cortex-m33", FLASH))
    machine.run(until_instructions=instructions)
    return machine


def call(name: str, *arguments: int) -> str:
    """A function of the ROM, found by rom_table_lookup."""
    settings = "\n".join(f"    ldr r{i}, ={value:#x}" for i, value in enumerate(arguments))
    return f"""
    movs r4, #0x16
    ldrh r4, [r4]
    ldr r0, ={rp2_rom.code_of(name):#x}
    movs r1, #4
    blx r4
    mov r5, r0
{settings}
    blx r5"""


def test_only_a_program_with_an_image_definition_starts(tmp_path: Path) -> None:
    machine = run(tmp_path, "    movs r6, #77")
    assert machine.cpu.engine.reg_read(72) == 77  # r6
    bare = Machine(PICO_2, program(tmp_path, "    function start\n    b .\n", "cortex-m33", FLASH))
    assert bare.in_rom


def clocks() -> tuple[Xosc, Pll, Clocks2350]:
    xosc = Xosc()
    pll = Pll("PLL_SYS", xosc, lambda: False)
    return xosc, pll, Clocks2350(xosc, pll)


@pytest.mark.parametrize(("first", "hz"), [(5, 150_000_000), (6, 125_000_000), (4, None)])
def test_the_core_bears_150_mhz(first: int, hz: int | None) -> None:
    xosc, pll, clock = clocks()
    xosc.store(Xosc.CONTROL, 0xFABAA0)
    for word, value in ((Pll.FEEDBACK, 125), (Pll.POWER, 0), (Pll.DIVIDERS, first << 16 | 2 << 12)):
        pll.store(word, value)
    if hz is None:
        with pytest.raises(BoardFault, match="187500000 Hz, and bears 150000000"):
            clock.store(Clocks2350.SYS_CONTROL, 1)
    else:
        clock.store(Clocks2350.SYS_CONTROL, 1)
        assert clock.system_hz == hz
        clock.store(Clocks2350.SYS_DIVISOR, 0x30000)
        assert clock.system_hz == hz // 3


def test_a_pad_is_isolated_until_its_bit_is_cleared() -> None:
    pads = Pads2350(lambda: False)
    for value, works in ((0x116, False), (0x15A, False), (0xDA, False), (0x5A, True)):
        pads.store(4, value)
        assert pads.works(0) == works


def test_resets_hold_what_the_datasheet_lists() -> None:
    resets = Resets2350()
    held = {name: resets.holds(getattr(Resets2350, name))() for name in ("UART0", "USB", "TIMER")}
    assert set(held.values()) == {True}
    resets.write(0x3000, 4, 1 << 26)  # cleared by the atomic alias
    assert not resets.holds(Resets2350.UART0)()
    assert resets.load(Resets2350.DONE) == 1 << 26 | Resets2350.FREE_AFTER_BOOT


def test_the_timer_counts_its_own_tick() -> None:
    ticks = Ticks()
    assert ticks.ticks_hz(12_000_000) == 0
    ticks.store(Ticks.TIMER_CYCLES, 12)
    ticks.store(Ticks.TIMER, 1)
    assert ticks.ticks_hz(12_000_000) == 1_000_000


def test_the_flash_is_read_by_a_command_that_it_bears() -> None:
    qmi = Qmi(lambda: 150_000_000)
    assert not qmi.reads_flash
    for mode, command in enumerate((0x03, 0x0B, 0xBB, 0xEB)):
        qmi.select(mode, 2)
        assert (qmi.reads_flash, qmi.load(Qmi.COMMAND)) == (True, command)
    with pytest.raises(BoardFault, match="mode 4; there are 4"):
        qmi.select(4, 2)
    with pytest.raises(BoardFault, match="read at 150000000 Hz, and bears 133000000"):
        qmi.select(3, 1)
    with pytest.raises(BoardFault, match="leaves to the ROM"):
        qmi.write(Qmi.TIMING, 4, 0)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (call("XM", 3, 2), "flash_select_xip_read_mode was called before flash_exit_xip"),
        (call("EX"), "before connect_internal_flash"),
        (call("RE", 0x1000, 0x1000, 0x10000, 0xD8), "before flash_exit_xip"),
        (call("GS", 0x20001000, 4, 2), "get_sys_info was called for 0x2"),
        (call("IF").replace("movs r1, #4", "movs r1, #1"), "not for secure Arm"),
        (call("IF") + call("EX") + "\n    nop", "where no code is"),
    ],
)
def test_each_mistake_has_its_sentence(tmp_path: Path, code: str, sentence: str) -> None:
    with pytest.raises(BoardFault, match=sentence):
        run(tmp_path, code)


def test_the_rom_says_the_chips_number(tmp_path: Path) -> None:
    machine = run(tmp_path, call("GS", 0x20001000, 4, 1))
    words = [int.from_bytes(machine.read(0x20001000 + at, 4), "little") for at in range(0, 16, 4)]
    assert words == [1, 0, 0xABCD5678, 0xE6601234]


def test_the_bootloader_is_the_roms() -> None:
    machine = Machine(PICO_2)
    address = rp2_rom.function_addresses(rp2_rom.RP2350_FUNCTIONS)["RB"]
    machine.chip.ignores_uart = False
    assert machine.chip.trap(address, (0x102, 1, 0, 0)) is None
    assert machine.chip.ignores_uart


@pytest.mark.parametrize(("family", "starts"), [(0xE48BFF59, True), (0xE48BFF56, False)])
def test_the_drive_takes_files_of_its_family(tmp_path: Path, family: int, starts: bool) -> None:
    text = f"    function start\n    b .\n    .balign 4\n{IMAGE}\n"
    image = program(tmp_path, text, "cortex-m33", FLASH).segments[0][1]
    machine = Machine(PICO_2)
    assert machine.in_rom
    put_uf2(machine, uf2(image.ljust(-(-len(image) // 256) * 256, b"\0"), family))
    assert machine.in_rom != starts


def test_another_chip_has_no_drive() -> None:
    line = Uart(pins="P0.06 sends, P0.08 receives")
    board = described("f", emulate=Emulation(unicorn="nrf52840"), uart=line)
    with pytest.raises(VirtualBoardError, match="takes no UF2 files"):
        put_uf2(Machine(board), b"")
