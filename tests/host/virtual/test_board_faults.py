from pathlib import Path

import pytest
from mcutrain_host.manifest import Emulation, Uart
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.machine import Machine, Stop

from tests.host.boards import described
from tests.host.virtual.programs import F446, F746, PICO, pico_program, program

LOAD = "    function start\n    ldr r0, ={address}\n    {instruction}\n    b .\n"


def run(tmp_path: Path, address: int, instruction: str) -> None:
    text = LOAD.format(address=hex(address), instruction=instruction)
    Machine(F446, program(tmp_path, text)).run(until_instructions=10)


@pytest.mark.parametrize(
    ("address", "instruction", "sentence"),
    [
        (0x20020000, "ldr r1, [r0]", "reads 4 bytes from 0x20020000, where the chip has nothing"),
        (0x1FFFFFFC, "str r1, [r0, #0]", "writes 4 bytes to 0x1ffffffc"),
        (0x40012000, "ldr r1, [r0]", "0x40012000"),
        (0x1FFF0000, "str r1, [r0]", "read-only"),
        (0x60000001, "bx r0", "jumps to 0x60000000, where no code is"),
        (0x40020001, "bx r0", "jumps to 0x40020000, where no code is"),
        (0xE000E001, "bx r0", "jumps to 0xe000e000, where no code is"),
        (0x40020000, "ldr r1, [r0]", "GPIOA while its clock is off"),
        (0x40004400, "str r0, [r0, #12]", "USART2 while its clock is off"),
        (0xE000E100, "str r0, [r0]", "enables an interrupt"),
        (0x40023840, "str r0, [r0, #0x3C]", "RCC has no register at offset 0x7c"),
        (0x0, "udf #1", "does not have"),
        (0x0, "svc #1", "executes SVC"),
        (0x0, "bkpt #1", "BKPT"),
    ],
)
def test_each_mistake_has_its_sentence(
    tmp_path: Path, address: int, instruction: str, sentence: str
) -> None:
    with pytest.raises(BoardFault) as caught:
        run(tmp_path, address, instruction)
    assert sentence in str(caught.value)
    assert "start + 0x" in str(caught.value)


def test_the_floating_point_unit_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    use = "    .short 0xEE30, 0x0A81\n"  # vadd.f32 s0, s1, s2
    off = program(tmp_path, f"    function start\n{use}    b .\n")
    with pytest.raises(BoardFault, match="floating-point unit"):
        Machine(F446, off).run(until_instructions=10)
    switch = (
        "    ldr r0, =0xE000ED88\n    ldr r1, =0xF00000\n    str r1, [r0]\n    isb\n    b 1f\n1:"
    )
    on = program(tmp_path, f"    function start\n{switch}{use}    b .\n")
    assert Machine(F446, on).run(until_instructions=10) is Stop.INSTRUCTIONS


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (".short 0xFB20, 0x0001", "a cortex-m0plus does not have"),  # smlad r0, r0, r1, r0
        (".short 0xFB90, 0xF0F0", "a cortex-m0plus does not have"),  # sdiv
        ("ldr r0, =0x20000001\n    ldr r0, [r0]", "not aligned"),
    ],
)
def test_a_cortex_m0_refuses_what_it_does_not_have(
    tmp_path: Path, code: str, sentence: str
) -> None:
    image = pico_program(tmp_path, f"    function start\n    {code}\n    b .\n")
    with pytest.raises(BoardFault, match=sentence):
        Machine(PICO, image).run(until_instructions=100)


def test_dsp_instructions_run_on_m4_and_m7(tmp_path: Path) -> None:
    text = "    function start\n    .short 0xFB20, 0x0001\n    b .\n"
    for spec in (F446, F746):
        assert Machine(spec, program(tmp_path, text)).run(until_instructions=9)


def test_an_empty_flash_is_no_program() -> None:
    with pytest.raises(BoardFault, match="there is no program in the flash"):
        Machine(F446).run()


def test_a_fault_stays_until_the_reset_button(tmp_path: Path) -> None:
    image = program(tmp_path, LOAD.format(address="0x60000000", instruction="ldr r1, [r0]"))
    machine = Machine(F446, image)
    for _ in range(2):
        with pytest.raises(BoardFault, match="0x60000000"):
            machine.run()
    machine.reset()
    assert machine.run(until_instructions=machine.instructions + 1) is Stop.INSTRUCTIONS


def test_too_fast_a_clock_for_the_flash_is_noticed(tmp_path: Path) -> None:
    text = """
    function start
    ldr r0, =0x40023800
    ldr r1, =0x24002A08     @ 16 MHz / 8 * 168 / 2
    str r1, [r0, #4]
    ldr r1, =0x01000083
    str r1, [r0]
    ldr r1, =0x9402
    str r1, [r0, #8]
    b .
    """
    with pytest.raises(BoardFault, match="needs 5 wait states, and FLASH_ACR says 0"):
        Machine(F446, program(tmp_path, text)).run(until_instructions=20)


def test_a_board_without_a_twin_is_refused() -> None:
    with pytest.raises(VirtualBoardError, match="has no virtual twin"):
        Machine(described("moon", uart=Uart(name="X", baud=1)))


def test_a_core_that_no_virtual_board_has_is_refused() -> None:
    uart = Uart(name="X", baud=1)
    spec = described("moon", "cortex-m85", emulate=Emulation(unicorn="mps2"), uart=uart)
    with pytest.raises(VirtualBoardError, match="has the core 'cortex-m85'; virtual boards have"):
        Machine(spec)
