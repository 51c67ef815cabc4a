"""The nRF51's and nRF52's UART and flash controller refuse what the chips refuse."""

import random
from pathlib import Path

import pytest
from mcutrain_host.manifest import Emulation, Uart
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import FlashMemory, FlashTiming, equal_sectors
from mcutrain_host.virtual.machine import Machine
from mcutrain_host.virtual.nrf5 import NrfGpio, NrfTimer, NrfUart, Nvmc, PinRegisters, Power
from mcutrain_host.virtual.nrf5_chip import NRF5, pin_of

from tests.host.boards import described
from tests.host.virtual.programs import program
from tests.host.virtual.test_stm32_flash import Clock

KB = 1024
LINE = Uart(name="UART0", baud=115200, pins="P0.06 sends, P1.08 receives")
BOARD = described("nrf", emulate=Emulation(unicorn="nrf52833"), uart=LINE)
BAUD_115200 = 0x01D7E000


def controller(content: bytes = b"", config: int = Nvmc.READ) -> Nvmc:
    memory = FlashMemory(
        0, bytearray(content.ljust(64 * KB, b"\xff")), equal_sectors(64 * KB, 4 * KB)
    )
    flash = Nvmc(Clock(), memory, FlashTiming(4, 100), has_cache=True)
    flash.store(Nvmc.CONFIG, config)
    return flash


def test_chips_have_the_memory_of_their_specifications() -> None:
    sizes = {name: (f.ram // KB, f.flash // KB, f.page // KB) for name, f in NRF5.items()}
    assert sizes == {
        "nrf51822": (16, 256, 1),
        "nrf52833": (128, 512, 4),
        "nrf52840": (256, 1024, 4),
    }
    for name, facts in NRF5.items():
        board = described("b", facts.core, emulate=Emulation(unicorn=name), uart=LINE)
        machine = Machine(board)
        assert machine.read(0x10000010, 4) == facts.page.to_bytes(4, "little")
        assert machine.read(0x10000014, 4) == (facts.flash // facts.page).to_bytes(4, "little")


def test_only_the_page_of_the_address_is_erased() -> None:
    flash = controller(b"\0" * (12 * KB), Nvmc.ERASE)
    flash.store(Nvmc.ERASE_PAGE, 4 * KB)
    assert flash.load(Nvmc.READY) == 0
    while not flash.load(Nvmc.READY):
        pass
    assert flash.memory.bytes[: 12 * KB] == b"\0" * 4 * KB + b"\xff" * 4 * KB + b"\0" * 4 * KB


@pytest.mark.parametrize(
    ("config", "address", "sentence"),
    [
        (Nvmc.READ, 0, "CONFIG forbids it"),
        (Nvmc.WRITE, 0, "CONFIG forbids it"),
        (Nvmc.ERASE, 256, "where no page begins"),
        (Nvmc.ERASE, 64 * KB, "where no page begins"),
    ],
)
def test_an_erase_that_the_chip_ignores_is_noticed(
    config: int, address: int, sentence: str
) -> None:
    with pytest.raises(BoardFault, match=sentence):
        controller(config=config).store(Nvmc.ERASE_PAGE, address)


def test_nobody_erases_the_firmware_itself() -> None:
    with pytest.raises(BoardFault, match="itself with it"):
        controller(config=Nvmc.ERASE).store(Nvmc.ERASE_ALL, 1)


@pytest.mark.parametrize(("address", "size"), [(0, 1), (0, 2), (2, 4)])
def test_only_whole_words_are_written(address: int, size: int) -> None:
    with pytest.raises(BoardFault, match="takes words"):
        controller(config=Nvmc.WRITE).program(address, size, 0)


@pytest.mark.parametrize("config", [Nvmc.READ, Nvmc.ERASE])
def test_closed_flash_is_not_written(config: int) -> None:
    with pytest.raises(BoardFault, match="not open"):
        controller(config=config).program(0, 4, 0)


def test_bits_can_only_be_cleared_and_a_word_written_twice() -> None:
    flash = controller(config=Nvmc.WRITE)
    assert flash.program(8, 4, 0x12345678) == b"\x78\x56\x34\x12"
    with pytest.raises(BoardFault, match="not erased"):
        flash.program(8, 4, 0x12345679)
    flash = controller(config=Nvmc.WRITE)
    for value in (0x0FFFFFFF, 0x0F0FFFFF):
        flash.program(8, 4, value)
    with pytest.raises(BoardFault, match="third time"):
        flash.program(8, 4, 0)
    flash.store(Nvmc.CONFIG, Nvmc.ERASE)
    flash.store(Nvmc.ERASE_PAGE, 0)
    flash.store(Nvmc.CONFIG, Nvmc.WRITE)
    assert flash.program(8, 4, 1) == b"\1\0\0\0"


def test_a_power_cut_within_an_erase_leaves_old_and_erased_bits() -> None:
    leftovers = set()
    for seed in range(20):
        flash = controller(b"\x5a" * (8 * KB), Nvmc.ERASE)
        flash.store(Nvmc.ERASE_PAGE, 0)
        flash.memory.power_cut(flash.board.now, random.Random(seed))
        page = bytes(flash.memory.bytes[: 4 * KB])
        assert all(byte & 0x5A == 0x5A for byte in page)
        assert flash.memory.bytes[4 * KB : 8 * KB] == b"\x5a" * 4 * KB
        leftovers.add(page)
    assert len(leftovers) > 5


class Wire:
    def __init__(self, come: bytes = b"") -> None:
        self.come, self.sent, self.overruns = bytearray(come), bytearray(), 0

    def ready(self) -> bool:
        return bool(self.come)

    def take(self) -> int:
        return self.come.pop(0)

    def send(self, byte: int) -> None:
        self.sent.append(byte)


def unit(wire: Wire, why: str | None = None, **settings: int) -> NrfUart:
    uart = NrfUart(wire, 115200, lambda tx, rx: why)
    set_up = {"BAUDRATE": BAUD_115200, "ENABLE": 4, "CONFIG": 0} | settings
    for name, value in set_up.items():
        uart.store(getattr(NrfUart, name), value)
    return uart


def test_reading_a_byte_lets_the_next_one_in() -> None:
    uart = unit(Wire(b"ab"))
    assert uart.load(NrfUart.RXDRDY) == 0  # not started
    uart.store(NrfUart.STARTRX, 1)
    for byte in b"ab":
        assert uart.load(NrfUart.RXDRDY) == 1
        uart.store(NrfUart.RXDRDY, 0)
        assert uart.load(NrfUart.RXD) == byte
    assert uart.load(NrfUart.RXDRDY) == 0


def test_only_a_started_sender_sends() -> None:
    wire = Wire()
    uart = unit(wire)
    uart.store(NrfUart.TXD, 65)
    assert (uart.load(NrfUart.TXDRDY), bytes(wire.sent)) == (0, b"")
    uart.store(NrfUart.STARTTX, 1)
    uart.store(NrfUart.TXD, 65)
    assert (uart.load(NrfUart.TXDRDY), bytes(wire.sent)) == (1, b"A")
    uart.store(NrfUart.STOPTX, 1)
    uart.store(NrfUart.TXD, 66)
    assert bytes(wire.sent) == b"A"


@pytest.mark.parametrize(
    ("why", "settings", "sentence"),
    [
        (None, {"ENABLE": 8}, "ENABLE is not 4"),  # the UART with DMA
        (None, {"BAUDRATE": 0x00275000}, "the UART is set to 9598 baud"),
        (None, {"CONFIG": 0xE}, "parity"),
        ("no pins", {}, "no pins"),
    ],
)
def test_a_unit_that_is_set_up_wrongly_is_noticed(
    why: str | None, settings: dict[str, int], sentence: str
) -> None:
    with pytest.raises(BoardFault, match=sentence):
        unit(Wire(), why, **settings).store(NrfUart.STARTTX, 1)


def test_pins_of_both_ports_are_set_up_by_their_own_registers() -> None:
    gpio = NrfGpio(2)
    gpio.write(0x300 + PinRegisters.OUTSET, 4, 1 << 8)
    gpio.write(0x300 + PinRegisters.CNF + 4 * 8, 4, 3)
    gpio.write(PinRegisters.CNF + 4 * 6, 4, 12)
    first, second = gpio.ports
    assert second.sends(8)
    assert first.receives(6)
    assert not any(port.sends(6) or port.receives(8) for port in (first, second))
    gpio.write(0x300 + PinRegisters.OUTCLR, 4, 1 << 8)
    assert not second.sends(8)
    assert gpio.port_of(40) is second
    assert gpio.port_of(64) is None
    assert NrfGpio(1).port_of(40) is None


@pytest.mark.parametrize("pins", ["", "PA2 sends, PA3 receives", "P0.06 sends"])
def test_pins_that_a_board_does_not_name_are_a_sentence(pins: str) -> None:
    board = described("b", uart=Uart(name="UART0", baud=1, pins=pins))
    with pytest.raises(VirtualBoardError, match="do not say which one receives"):
        pin_of(board, "receives")


def test_the_timer_counts_from_its_start() -> None:
    timer = NrfTimer(Clock())
    timer.store(NrfTimer.CAPTURE, 1)
    assert timer.load(NrfTimer.CC) == 0
    for word, value in ((NrfTimer.BITMODE, 3), (0x510, 0), (NrfTimer.START, 1)):
        timer.store(word, value)
    timer.board.skip(100_000)
    timer.store(NrfTimer.CAPTURE + 4, 1)
    assert timer.load(NrfTimer.CC + 4) == 100_001
    timer.store(NrfTimer.BITMODE, 0)
    timer.store(NrfTimer.CAPTURE, 1)
    assert timer.load(NrfTimer.CC) == 100_002 % (1 << 16)


def test_a_reset_keeps_the_byte_for_the_bootloader() -> None:
    power = Power()
    power.store(Power.START, 1)
    power.store(Power.GPREGRET, 0xB0)
    assert (power.crystal_runs, power.load(Power.STARTED)) == (True, 1)
    power.reset()
    assert (power.crystal_runs, power.load(Power.STARTED)) == (False, 0)
    assert power.load(Power.GPREGRET) == 0xB0


START_UART = """
    function start
    ldr r0, =0x40000000
    movs r1, #1
    str r1, [r0]              @ the crystal
    ldr r0, =0x50000000
    movs r1, #{out}
    ldr r2, =0x718            @ pin 6
    str r1, [r0, r2]
    movs r1, #64
    ldr r2, =0x508
    str r1, [r0, r2]
    movs r1, #12
    ldr r2, =0xA20            @ pin 40
    str r1, [r0, r2]
    ldr r0, =0x40002000
    movs r1, #{tx}
    ldr r2, =0x50C
    str r1, [r0, r2]
    movs r1, #40
    ldr r2, =0x514
    str r1, [r0, r2]
    ldr r1, =0x1D7E000
    ldr r2, =0x524
    str r1, [r0, r2]
    movs r1, #4
    ldr r2, =0x500
    str r1, [r0, r2]
    movs r1, #1
    str r1, [r0, #8]
    b .
"""


def test_a_sender_with_its_pin_starts(tmp_path: Path) -> None:
    text = START_UART.format(out=3, tx=6)
    Machine(BOARD, program(tmp_path, text, origin=0)).run(until_instructions=60)


@pytest.mark.parametrize(
    ("out", "tx", "old", "new", "sentence"),
    [
        (2, 6, "", "", "pin 6, which sends, is not set up"),
        (3, 7, "", "", "has pins 7 and 40, and the board's are 6 and 40"),
        (3, 6, "movs r1, #12", "movs r1, #0", "pin 40, which receives, is not set up"),
        (3, 6, "str r1, [r0]              @", "nop @", "without the crystal"),
    ],
)
def test_each_mistake_has_its_sentence(
    tmp_path: Path, out: int, tx: int, old: str, new: str, sentence: str
) -> None:
    text = START_UART.format(out=out, tx=tx).replace(old, new)
    with pytest.raises(BoardFault, match=sentence):
        Machine(BOARD, program(tmp_path, text, origin=0)).run(until_instructions=60)
