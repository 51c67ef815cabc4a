from pathlib import Path

import pytest
from mcutrain_host.virtual.board import put_uf2
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.machine import Machine, Stop
from mcutrain_host.virtual.rp2_rom import crc32_mpeg2

from tests.host.virtual.programs import PICO, pico_program

CALL_ROM = """
    .macro rom first, second
    movs r0, #0
    ldrh r2, [r0, #0x18]
    ldrh r0, [r0, #0x14]
    ldr r1, =(\\second << 8 | \\first)
    blx r2
    mov r6, r0
    .endm
"""
IN_RAM = """
    .macro copy from, to
    ldr r1, =\\from
    ldr r2, =\\to
    ldr r3, =0x20000100
1:  ldm r1!, {r0}
    stm r3!, {r0}
    cmp r1, r2
    blo 1b
    .endm
"""
SAVES = f"""
    {CALL_ROM}
    {IN_RAM}
    function start
    copy routine, routine_end
    ldr r0, =0x20000101
    blx r0
    movs r7, #1
    b .
    .pool
    .balign 4
routine:
    push {{lr}}
    rom 'I', 'F'
    blx r6
    rom 'E', 'X'
    EXIT_XIP
    rom 'R', 'E'
    ldr r0, =0x100000
    ldr r1, =0x2000
    ldr r2, =0x10000
    movs r3, #0xD8
    blx r6
    rom 'R', 'P'
    ldr r0, =0x101000
    ldr r1, =0x20000000
    ldr r2, =0x100
    blx r6
    TOUCH
    rom 'F', 'C'
    blx r6
    rom 'C', 'X'
    blx r6
    pop {{pc}}
    .pool
    .balign 4
routine_end:
"""


def saving(exit_xip: str = "blx r6", touch: str = "nop") -> str:
    return SAVES.replace("EXIT_XIP", exit_xip).replace("TOUCH", touch)


def test_crc_is_that_of_the_datasheet() -> None:
    assert crc32_mpeg2(b"123456789") == 0x0376E6E7


def test_a_wrong_checksum_of_the_second_stage_leads_to_the_rom(tmp_path: Path) -> None:
    good = Machine(PICO, pico_program(tmp_path, "    function start\n    b .\n"))
    assert good.run(until_instructions=100) is Stop.INSTRUCTIONS
    assert not good.in_rom
    (tmp_path / "bad").mkdir()
    bad = Machine(PICO, pico_program(tmp_path / "bad", "    function start\n    b .\n", 1))
    assert bad.run(until_idle=True) is Stop.IDLE
    assert bad.in_rom


def test_the_roms_functions_erase_and_program(tmp_path: Path) -> None:
    machine = Machine(PICO, pico_program(tmp_path, saving()))
    for address in (0x100FF000, 0x10100000, 0x10101000, 0x10102000):
        machine.write(address, b"\x55" * 0x1000)
    machine.write(0x20000000, bytes(range(256)))
    machine.run(until_instructions=100_000)
    assert machine.read(0x100FFFFF, 1) == b"\x55"
    assert machine.read(0x10100000, 0x1000) == b"\xff" * 0x1000
    assert machine.read(0x10101000, 0x101) == bytes(range(256)) + b"\xff"
    assert machine.read(0x10102000, 1) == b"\x55"


def test_power_cut_while_the_rom_erases(tmp_path: Path) -> None:
    image = pico_program(tmp_path, saving())
    found = set()
    for seed in range(8):
        machine = Machine(PICO, image, seed=seed)
        machine.write(0x10100000, b"\x00" * 0x2000)
        machine.cut_during("erase", 1)
        assert machine.run() is Stop.POWER_CUT
        assert machine.read(0x10100000, 0x1000) == b"\xff" * 0x1000
        found.add(machine.read(0x10101000, 64))
    assert len(found) > 3


@pytest.mark.timeout(60)
def test_a_cut_while_the_rom_is_busy_comes_at_its_instruction(tmp_path: Path) -> None:
    image = pico_program(tmp_path, saving())
    whole = Machine(PICO, image)
    whole.cut_during("erase", 0)
    assert whole.run() is Stop.POWER_CUT
    for later in (0, 1, 700):
        machine = Machine(PICO, image)
        machine.cut_at(whole.instructions + later)
        assert machine.run() is Stop.POWER_CUT
        assert machine.instructions == whole.instructions + later


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (saving(exit_xip="nop"), "flash_range_erase was called before flash_exit_xip"),
        (saving(touch="ldr r0, =0x10100000\n    ldr r0, [r0]"), "cannot be read as memory"),
        (saving(touch="ldr r0, =0x10000201\n    bx r0"), "where no code is"),
        ("    function start\n    ldr r0, =0x40034000\n    ldr r0, [r0]\n", "holds it in reset"),
    ],
)
def test_what_the_flash_cannot_do_meanwhile_is_a_fault(
    tmp_path: Path, text: str, sentence: str
) -> None:
    machine = Machine(PICO, pico_program(tmp_path, text))
    machine.write(0x20000000, bytes(256))
    with pytest.raises(BoardFault, match=sentence):
        machine.run(until_instructions=100_000)


def test_a_uf2_file_on_the_drive_starts(tmp_path: Path) -> None:
    image = pico_program(tmp_path, "    function start\n    b .\n")
    machine = Machine(PICO, boot0=True)
    assert machine.in_rom
    put_uf2(machine, uf2(b"".join(data.ljust(256, b"\0") for _, data in image.segments)))
    assert not machine.in_rom
    assert machine.run(until_instructions=100) is Stop.INSTRUCTIONS
    with pytest.raises(VirtualBoardError, match="damaged"):
        put_uf2(machine, bytes(512))


def uf2(data: bytes, family: int = 0xE48BFF56) -> bytes:
    count = len(data) // 256
    words = (0x0A324655, 0x9E5D5157, 0x2000)
    return b"".join(
        b"".join(
            word.to_bytes(4, "little")
            for word in (*words, 0x10000000 + 256 * i, 256, i, count, family)
        )
        + data[256 * i :][:256].ljust(476, b"\0")
        + (0x0AB16F30).to_bytes(4, "little")
        for i in range(count)
    )
