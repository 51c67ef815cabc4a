"""Every board.toml agrees with itself and with the reference manual of its chip."""

import re
from itertools import accumulate, pairwise

import pytest

from mcutrain.errors import TargetError
from mcutrain.target import FIRMWARE, board_names, load_target

KB = 1024
BOARDS = [load_target(name) for name in board_names()]
CHIPS = [board for board in BOARDS if board.has_firmware and not board.is_hosted]
OVER_UARTS = [board for board in CHIPS if board.uart.name != "USB"]
PICOS = ("rpi-pico", "rpi-pico-usb")
PICOS_2 = ("rpi-pico-2", "rpi-pico-2-usb")
STM32 = [board for board in CHIPS if any("chips/stm32/" in name for name in board.sources)]

# Sector sizes: RM0385 table 3, RM0390 table 4, RM0368 table 5, RM0090 table 5, RM0316 table 4,
# RM0351 and RM0433, "Flash memory organization"; RM0383 has the STM32F411's, as many as the F401's.
SECTORS = {
    "b-l475e-iot01a": [2 * KB] * 512,
    "nucleo-h743zi": [128 * KB] * 16,
    "nucleo-f303re": [2 * KB] * 256,
    "stm32f746g-disco": [32 * KB] * 4 + [128 * KB] + [256 * KB] * 3,
    "nucleo-f401re": [16 * KB] * 4 + [64 * KB] + [128 * KB] * 3,
    "nucleo-f446re": [16 * KB] * 4 + [64 * KB] + [128 * KB] * 3,
    "netduinoplus2": [16 * KB] * 4 + [64 * KB] + [128 * KB] * 7,
}
SAME_FLASH = {
    "blackpill-f411ce": "nucleo-f401re",
    "nucleo-f411re": "nucleo-f401re",
    "nucleo-f446ze": "nucleo-f446re",
    "nucleo-f746zg": "stm32f746g-disco",
    "nucleo-l476rg": "b-l475e-iot01a",
    "stm32f407g-disc1": "netduinoplus2",
}
"""Boards whose flash is that of a board above."""
SECTORS |= {board: SECTORS[other] for board, other in SAME_FLASH.items()}
FLASH_ORIGIN = 0x08000000
BY_ADDRESS = ("b-l475e-iot01a", "nucleo-f303re", "nucleo-l476rg")
ERASED_BY_NUMBER = [board for board in STM32 if board.name not in BY_ADDRESS]
BUS_DIVISORS = {"USART1": 2, "USART2": 4, "USART3": 4, "USART6": 2}  # mct_clock.c
OTHER_BUS_DIVISORS = {  # mct_clock_f3.c, mct_clock_l4.c, mct_clock_h7.c
    "nucleo-f303re": {"USART1": 1, "USART2": 2},
    "b-l475e-iot01a": {"USART1": 1},
    "nucleo-l476rg": {"USART2": 1},
    "nucleo-h743zi": {"USART3": 4},
}
NRF5 = [board for board in CHIPS if any("nrf5" in name for name in board.sources)]
MAX_BAUD_ERROR = 0.005  # what the oscillator may be off comes on top


def named(board):
    return board.name


@pytest.mark.parametrize("board", BOARDS, ids=named)
def test_board_has_its_folders_name_and_all_its_files(board):
    assert board.folder.name == board.name
    files = [*board.sources, *board.values.get("output", {}).get("tools", [])]
    if board in CHIPS:
        files.append(board.values["linker_script"])
    assert [name for name in files if not (FIRMWARE / name).is_file()] == []


@pytest.mark.parametrize("board", CHIPS, ids=named)
def test_no_two_regions_of_memory_overlap(board):
    regions = [board.flash, board.ram] + ([board.vectors] if board.vectors else [])
    spans = [(region.origin, region.size_bytes) for region in regions]
    spans += [(origin, board.slot_bytes) for origin in board.slots]
    spans.sort()
    for (origin, size_bytes), (following, _) in pairwise(spans):
        assert origin + size_bytes <= following


@pytest.mark.parametrize("board", OVER_UARTS, ids=named)
def test_uart_is_described_as_it_is_programmed(board):
    assert board.values["uart"]["baud"] == board.values["define"]["UART_BAUD"]


@pytest.mark.parametrize("names", [PICOS, PICOS_2])
def test_a_pico_over_usb_is_a_pico_over_its_uart_but_for_the_line(names):
    """What its host looks for is what it says of itself; each fact of the chip is the same."""
    uart, usb = (load_target(name) for name in names)
    own = {"name", "title", "between_nodes", "sources", "define", "uart", "flash"}
    assert {k: v for k, v in usb.values.items() if k not in own} == {
        k: v for k, v in uart.values.items() if k not in own
    }
    define = usb.values["define"]
    assert usb.uart.usb == ((define["USB_VENDOR"], define["USB_PRODUCT"]),)
    assert usb.sram_bytes(1000, 500) == uart.sram_bytes(1000, 500)


@pytest.mark.parametrize("board", OVER_UARTS, ids=named)
def test_every_baud_rate_is_a_divisor_of_the_clock(board):
    define = board.values["define"]
    if board in NRF5:  # 16 MHz * n / 2^20, whatever the core's clock
        divisor = round(define["UART_BAUD"] * 2**20 / 16e6)
        assert abs(16e6 * divisor / 2**20 / define["UART_BAUD"] - 1) < MAX_BAUD_ERROR
        return
    divided = OTHER_BUS_DIVISORS.get(board.name, BUS_DIVISORS)
    clock_hz = define["CLOCK_HZ"] / divided.get(board.values["uart"]["name"], 1)
    clock_hz *= 4 if board.name in (*PICOS, *PICOS_2) else 1  # counts 64ths of 16 clocks
    divisor = round(clock_hz / define["UART_BAUD"])
    assert abs(clock_hz / divisor / define["UART_BAUD"] - 1) < MAX_BAUD_ERROR


@pytest.mark.parametrize("board", CHIPS, ids=named)
def test_slots_begin_and_end_where_the_flash_can_be_erased(board):
    assert board.slot_bytes % (4 * KB) == 0
    if board.name in (*PICOS, *PICOS_2):  # mct_flash.c erases blocks of 64 KB
        assert [(origin | board.slot_bytes) % (64 * KB) for origin in board.slots] == [0, 0]


@pytest.mark.parametrize("board", NRF5, ids=named)
def test_an_nrf5_sends_by_the_pins_that_its_description_names(board):
    define, pins = board.values["define"], board.uart.pins
    for role, key in (("sends", "UART_TX"), ("receives", "UART_RX")):
        port, number = re.search(rf"P(\d)\.(\d\d)[^,:]* {role}", pins).groups()
        assert define[key] == 32 * int(port) + int(number)


@pytest.mark.parametrize("board", NRF5, ids=named)
def test_an_nrf5_has_the_pages_of_its_specification(board):
    """Slots end with the flash: 256 KB in pages of 1 KB, 512 KB or 1 MB in pages of 4 KB.

    They end below the file system and the bootloader of boards that have these at its end.
    """
    ends = {"bbc-microbit": 256, "bbc-microbit-v2": 512}
    ends |= dict.fromkeys(("feather-nrf52840", "itsybitsy-nrf52840", "xiao-nrf52840"), 928)
    assert board.erase_bytes == (KB if board.name == "bbc-microbit" else 4 * KB)
    assert board.slots[1] + board.slot_bytes == ends.get(board.name, 1024) * KB
    assert board.flash.origin + board.flash.size_bytes == board.slots[0]


@pytest.mark.parametrize("board", STM32, ids=named)
def test_an_stm32_has_the_sectors_of_its_manual(board):
    assert list(board.flashing.sectors) == SECTORS[board.name]


@pytest.mark.parametrize(
    ("name", "flash_kb", "slot_kb"),
    [("nucleo-f303re", 512, 48), ("b-l475e-iot01a", 1024, 128), ("nucleo-l476rg", 1024, 128)],
)
def test_pages_that_are_erased_by_address_are_the_slots_erase_units(name, flash_kb, slot_kb):
    board = load_target(name)
    assert board.erase_bytes == 2 * KB
    assert [(origin - FLASH_ORIGIN) % (2 * KB) for origin in board.slots] == [0, 0]
    assert board.slots[1] + board.slot_bytes == FLASH_ORIGIN + flash_kb * KB
    assert [board.can_save(slot_kb * KB - 256 + more) for more in (0, 1)] == [True, False]


@pytest.mark.parametrize("board", ERASED_BY_NUMBER, ids=named)
def test_slots_of_an_stm32_are_the_sectors_that_the_driver_erases(board):
    sizes = SECTORS[board.name]
    for i, (origin, sectors) in enumerate(
        zip(board.slots, board.values["slots"]["sectors"], strict=True)
    ):
        define = board.values["define"]
        first, count = define[f"SLOT_{i}_SECTOR"], define[f"SLOT_{i}_SECTORS"]
        assert sectors == list(range(first, first + count))
        assert origin == FLASH_ORIGIN + sum(sizes[:first])
        assert board.slot_bytes <= sum(sizes[first : first + count])


@pytest.mark.parametrize("board", STM32, ids=named)
def test_code_of_an_stm32_shares_no_sector_with_a_slot(board):
    sizes = SECTORS[board.name]
    erased = {
        sector
        for sector in range(len(sizes))
        for slot in board.slots
        if slot < FLASH_ORIGIN + sum(sizes[: sector + 1])
        and FLASH_ORIGIN + sum(sizes[:sector]) < slot + board.slot_bytes
    }
    assert erased >= {s for slot in board.values["slots"].get("sectors", ()) for s in slot}
    for region in filter(None, (board.flash, board.vectors)):
        for sector, size_bytes in enumerate(sizes):
            origin = FLASH_ORIGIN + sum(sizes[:sector])
            apart = origin + size_bytes <= region.origin
            apart |= region.origin + region.size_bytes <= origin
            assert apart or sector not in erased


FOREIGN = {"string.h", "bin2uf2.c", "freertos_littlefs.c"}
"""A header that the C library of a chip must have under this name; a program for the host; an
example, which is the user's own program."""


def test_no_name_of_a_c_file_can_be_that_of_a_file_of_the_users_program() -> None:
    names = {path.name for path in FIRMWARE.rglob("*") if path.suffix in (".c", ".h", ".S", ".inc")}
    assert len(names) > 150
    assert {name for name in names if not name.startswith("mct_")} <= FOREIGN


@pytest.mark.parametrize("board", CHIPS, ids=named)
def test_slots_say_what_is_erased_at_once_and_how_often(board):
    assert board.slot_bytes % board.erase_bytes == 0
    assert board.erase_bytes % 256 == 0
    assert (board.erasures is None) == board.name.startswith("mps")  # whose slots are in RAM


@pytest.mark.draws(8)
@pytest.mark.parametrize("board", CHIPS, ids=named)
def test_slots_that_a_ring_needs_larger_take_no_byte_of_the_program(board):
    """Whole units of erasing, up to the end of the flash; ever larger, and never larger at once."""
    whole, found = board.without_slots().flash, larger(board)
    assert found
    sizes = board.flashing.sectors or (board.erase_bytes,) * (whole.size_bytes // board.erase_bytes)
    bounds = [whole.origin, *(whole.origin + end for end in accumulate(sizes))]
    assert bounds[-1] == whole.origin + whole.size_bytes
    before = board
    for other in found:
        first, second = (bounds.index(origin) for origin in other.slots)
        assert 0 < first < second
        assert other.flash.origin == whole.origin
        assert other.vectors == board.without_slots().vectors
        assert whole.origin + other.flash.size_bytes == other.slots[0]
        assert other.slots[0] + other.slot_bytes <= other.slots[1]
        assert other.slots[1] + other.slot_bytes <= bounds[-1]
        assert other.slot_bytes > before.slot_bytes
        assert other.ring_flash_bytes == board.flash.size_bytes - other.flash.size_bytes
        assert other.without_slots().flash == whole
        if board.name in (b.name for b in ERASED_BY_NUMBER):
            define = other.values["define"]
            numbers = [define[f"SLOT_{i}_SECTOR{s}"] for i in (0, 1) for s in ("", "S")]
            assert numbers == [first, second - first, second, len(sizes) - second]
            assert other.erase_bytes == other.slot_bytes
        elif board.erase_bytes < board.slot_bytes:
            assert other.slot_bytes % board.erase_bytes == 0
            assert other.erase_bytes == board.erase_bytes
        before = other


def larger(board):
    """Every layout of slots that is larger than the board's own, by the sizes of one byte more."""
    found, size = [], board.slot_bytes
    while True:
        try:
            found.append(board.with_latents(1, size // 256 - 2, 4))
        except TargetError:
            return found
        size = found[-1].slot_bytes


@pytest.mark.parametrize(
    ("board", "program_kb", "slot_kb"),
    [
        ("nucleo-f446re", 65, 128),
        ("nucleo-f446re", 64, 192),
        ("stm32f746g-disco", 513, 96),
        ("stm32f746g-disco", 512, 256),
        ("stm32f746g-disco", 128, 384),
        ("netduinoplus2", 512, 256),
        ("nucleo-f303re", 100, 206),
        ("rpi-pico", 600, 724),
        ("mps2-an386", 2048, 1024),
    ],
)
def test_how_large_slots_can_be_beside_a_program(board, program_kb, slot_kb):
    with pytest.raises(TargetError, match=f" {slot_kb * KB:,} bytes, in which "):
        load_target(board).with_latents(1, 65_536, 4, program_kb * KB)


def test_a_ring_that_fits_the_boards_own_slots_moves_none_of_them():
    for board in CHIPS:
        other = board.with_latents(1, board.slot_bytes // 256 - 3, 4)
        assert (other.slots, other.flash, other.values) == (board.slots, board.flash, board.values)


def test_saves_go_round_through_both_slots():
    assert load_target("rpi-pico").saves(412) == 2 * (0x30000 // 768) * 100_000
    assert load_target("nucleo-f446re").saves(412) == 2 * (0x20000 // 768) * 10_000
    assert load_target("nucleo-f446re").saves(0x20000 - 256) == 2 * 10_000
    assert load_target("nucleo-f446re").saves(0x20000) is None
    assert load_target("mps2-an386").saves(412) is None
    assert load_target("native").saves(412) is None
