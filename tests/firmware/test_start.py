"""Start-up, drivers and linker script, built without a model, by each compiler there is."""

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcutrain_host.toolchain import ZIG

from mcutrain.codegen.firmware import compile_facts
from mcutrain.target import FIRMWARE, load_target
from tests.compiled import objects
from tests.drawing import drawn_by_commit
from tests.firmware.elf import sections
from tests.firmware.test_boards import CHIPS, named

MAIN = """
#include "mct_board.h"
static uint8_t arena[1000];
int main(void) {
    mct_board_start();
    for (uint32_t i = 0;; i = (i + 256) % 512) {
        arena[i] = (uint8_t)mct_board_receive();
        mct_board_send(arena, (uint32_t)mct_board_cycles() % 2 + mct_board_clock_hz() % 2);
        if (mct_board_slot(0)[0] != 0xFF) {
            (void)mct_board_slot_erase(0, 0, 4096);
            (void)mct_board_slot_write(1, 256, arena, 256);
        }
        if (mct_board_stack_used() > 100 && !mct_board_bootloader()) {
            mct_board_restart();
        }
    }
}
"""
BUILT = [load_target(name) for name in drawn_by_commit([board.name for board in CHIPS], 10)]
"""Each by two compilers; tests/boards builds them with a model, too."""
ARENA_BYTES = 1000
BOOT2_BYTES = 256


@dataclass(frozen=True)
class Built:
    elf: Path
    returncode: int
    errors: str


def toolchains(facts):
    """Commands with the board's flags, and libraries: gcc's, if it is there, and zig's."""
    found = {"zig": ([*ZIG, *facts.zig], [])}
    if shutil.which(facts.gcc):
        found["gcc"] = ([facts.gcc, *facts.flags], ["-lgcc"])
    return found


def include_folders(board):
    folders = {FIRMWARE / "app"} | {(FIRMWARE / source).parent for source in board.sources}
    return sorted({*folders, *(path.parent for f in folders for path in f.rglob("*.h"))})


def write_memory(board, folder, ram_bytes):
    """What `mcutrain generate` writes: memory.ld and mct_board_config.h."""
    define = dict(board.values["define"], STACK_BYTES=board.stack_bytes)
    define["SLOT_BYTES"] = board.slot_bytes
    define["BOARD_NAME"] = f'"{board.name}"'
    define["SLOT_ERASE_BYTES"] = board.erase_bytes
    define |= {f"SLOT_{i}": f"{origin:#x}u" for i, origin in enumerate(board.slots)}
    lines = [f"#define MCT_{name} {value}\n" for name, value in define.items()]
    (folder / "mct_board_config.h").write_text("".join(lines), encoding="utf-8")
    regions = {"FLASH (rx)": board.flash, "VECTORS (rx)": board.vectors}
    spans = {n: (r.origin, r.size_bytes) for n, r in regions.items() if r is not None}
    spans["RAM (rwx)"] = (board.ram.origin, ram_bytes)
    memory = [f"{n} : ORIGIN = {o}, LENGTH = {size}\n" for n, (o, size) in spans.items()]
    alias = "" if board.vectors else 'REGION_ALIAS("VECTORS", FLASH);\n'
    stack = f"mct_stack_bytes = {board.stack_bytes};\n"
    text = f"MEMORY\n{{\n{''.join(memory)}}}\n{alias}{stack}"
    (folder / "memory.ld").write_text(text, encoding="utf-8")


def build(board, toolchain, folder, missing_bytes=0, main=MAIN):
    """All sources of a board and a main function, in RAM of exactly what they need."""
    facts = compile_facts(board, [])
    command, libraries = toolchain
    ram_bytes = board.stack_bytes + ARENA_BYTES + board.driver_bytes - missing_bytes
    write_memory(board, folder, ram_bytes)
    (folder / "main.c").write_text(main, encoding="utf-8")
    for name in board.sources:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((FIRMWARE / name).read_bytes())
    flags = ["-O3", *facts.common_flags, f"-I{folder}"]
    flags += [f"-I{place}" for place in include_folders(board)]
    made = objects([*command, *flags], folder, ["main.c", *board.sources], FIRMWARE)
    script = FIRMWARE / board.values["linker_script"]
    link = ["-nostdlib", "-Wl,--gc-sections", "-L.", "-T", str(script)]
    elf = folder / "firmware.elf"
    done = subprocess.run(
        [*command, *link, "-o", str(elf), *made, *libraries],
        cwd=folder,  # zig's linker looks for memory.ld there only
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Built(elf, done.returncode, done.stderr)


@pytest.fixture(scope="session")
def firmware(tmp_path_factory):
    """The board's firmware built by each compiler, made when first asked for."""
    made = {}

    def of(board):
        if board.name not in made:
            chains = toolchains(compile_facts(board, []))
            made[board.name] = {
                name: build(board, chain, tmp_path_factory.mktemp(f"{board.name}-{name}"))
                for name, chain in chains.items()
            }
        return made[board.name]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("board", BUILT, ids=named)
def test_drivers_link_into_exactly_the_ram_that_the_board_says(board, firmware):
    for name, built in firmware(board).items():
        assert built.returncode == 0, f"{name}: {built.errors}"
        found = sections(built.elf)
        assert found[".stack"].address == board.ram.origin
        assert found[".stack"].size == board.stack_bytes
        assert found[".bss"].size == ARENA_BYTES + board.driver_bytes
        assert found[".data"].size == 0


@pytest.mark.parametrize("board", BUILT, ids=named)
def test_vector_table_lies_where_the_chip_looks_and_points_to_code(board, firmware):
    origin = (board.vectors or board.flash).origin
    for built in firmware(board).values():
        found = sections(built.elf)
        boot2_bytes = found[".boot2"].size if ".boot2" in found else 0
        assert found[".vectors"].address == origin + boot2_bytes
        table = found[".vectors"].content[:64]  # behind it the RP2350 has its image definition
        stack_pointer, *handlers = struct.unpack("<16I", table)
        assert stack_pointer == board.ram.origin + board.stack_bytes
        code = found[".text"]
        for handler in handlers:
            assert handler % 2 == 1
            assert code.address <= handler < code.address + code.size


def crc32_mpeg2(content):
    """Not reflected, no final inversion: what the RP2040's boot ROM computes."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def test_crc_of_the_check_string_is_the_published_one():
    assert crc32_mpeg2(b"123456789") == 0x0376E6E7


def test_second_boot_stage_has_the_checksum_that_the_boot_rom_wants(firmware):
    for built in firmware(load_target("rpi-pico")).values():
        boot2 = sections(built.elf)[".boot2"]
        assert (boot2.address, boot2.size) == (0x10000000, BOOT2_BYTES)
        assert int.from_bytes(boot2.content[-4:], "little") == crc32_mpeg2(boot2.content[:-4])


def test_routine_that_is_copied_to_the_stack_refers_to_nothing(firmware):
    for built in firmware(load_target("rpi-pico")).values():
        assert 0 < sections(built.elf)[".ramfunc"].size <= 256
        names = sections(built.elf.with_name("mct_flash.o"))
        assert ".rel.ramfunc" not in names
        assert ".rela.ramfunc" not in names


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_linker_says_by_how_many_bytes_the_ram_is_too_small(compiler, tmp_path):
    board = load_target("nucleo-f446re")
    chains = toolchains(compile_facts(board, []))
    if compiler not in chains:
        pytest.skip("arm-none-eabi-gcc is not installed")
    built = build(board, chains[compiler], tmp_path, missing_bytes=16)
    assert built.returncode != 0
    assert "overflowed by 16 bytes" in built.errors
    assert "mcutrain: stack and variables need more RAM than was planned" in built.errors
