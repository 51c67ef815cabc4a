from pathlib import Path

import pytest
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.machine import Machine, Stop
from unicorn import UC_ARCH_ARM, UC_HOOK_CODE, UC_MODE_THUMB, Uc
from unicorn.arm_const import (
    UC_ARM_REG_PC,
    UC_ARM_REG_R0,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M4,
)

from tests.host.virtual.programs import F446, program

LOOPS = """
    function start
    movs r4, #0
outer:
    movs r0, #5
    bl work
    adds r4, #1
    movw r1, #0x1234
    cmp r4, #1000
    bne outer
    b .
    .size start, . - start
    function work
    movs r1, #0
1:  adds r1, r0
    tst r0, #1
    ite eq
    addeq r2, #3
    addne.w r3, r3, #7
    subs r0, #1
    bne 1b
    bx lr
    .size work, . - work
"""
WITHOUT_CONDITIONS = LOOPS.replace("ite eq", "nop").replace("addeq", "add").replace("addne", "add")

MODEL = """
    function start
    movs r4, #3
1:  bl mct_infer
    subs r4, #1
    bne 1b
    bl outside
    b .
    .size start, . - start
    function mct_infer
    push {r4, lr}
    bl kernel_a
    bl kernel_b
    bl kernel_a
    pop {r4, lr}
    b kernel_b
    .size mct_infer, . - mct_infer
    function kernel_a
    movs r0, #10
2:  subs r0, #1
    bne 2b
    bx lr
    .size kernel_a, . - kernel_a
    function kernel_b
    push {lr}
    bl helper
    pop {pc}
    .size kernel_b, . - kernel_b
    function helper
    nop
    bx lr
    .size helper, . - helper
    function outside
    nop
    nop
    bx lr
    .size outside, . - outside
"""


def core(machine: Machine) -> list[int]:
    names = [UC_ARM_REG_PC, UC_ARM_REG_SP, *range(UC_ARM_REG_R0, UC_ARM_REG_R0 + 8)]
    return [machine.cpu.engine.reg_read(name) for name in names]


def test_stepping_one_by_one_leads_where_one_run_leads(tmp_path: Path) -> None:
    image = program(tmp_path, LOOPS)
    stepped = Machine(F446, image)
    seen = []
    for count in range(1, 120):
        assert stepped.run(until_instructions=count) is Stop.INSTRUCTIONS
        assert stepped.instructions == count
        seen.append(core(stepped))
    for count in (1, 2, 7, 8, 9, 10, 11, 50, 119):
        whole = Machine(F446, image)
        whole.run(until_instructions=count)
        assert core(whole) == seen[count - 1]


@pytest.mark.parametrize("count", [1, 13, 1000, 12345])
def test_count_equals_the_emulators_own_steps(tmp_path: Path, count: int) -> None:
    image = program(tmp_path, WITHOUT_CONDITIONS)
    machine = Machine(F446, image)
    machine.run(until_instructions=count)
    assert machine.cpu.engine.reg_read(UC_ARM_REG_PC) == traced(image)[count]
    assert sum(machine.functions().values()) == count


def traced(image: Image) -> list[int]:
    """Addresses of all instructions, from the emulator's slow callback."""
    engine = Uc(UC_ARCH_ARM, UC_MODE_THUMB, UC_CPU_ARM_CORTEX_M4)
    engine.mem_map(0x08000000, 0x10000)
    addresses: list[int] = []
    for address, data in image.segments:
        engine.mem_write(address, data)
    engine.hook_add(UC_HOOK_CODE, lambda _, address, size, data: addresses.append(address))
    entry = int.from_bytes(engine.mem_read(0x08000004, 4), "little")
    engine.emu_start(entry, 0, count=12400)
    return addresses


def test_calls_of_the_model_are_told_apart(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, MODEL))
    machine.run(until_instructions=500)
    rows = [(o.root, o.index, o.function, o.instructions, o.calls) for o in machine.operators()]
    assert rows == [
        ("mct_infer", 0, "mct_infer", 3 * 6, 3),
        ("mct_infer", 1, "kernel_a", 3 * 22, 3),
        ("mct_infer", 2, "kernel_b", 3 * 5, 3),
        ("mct_infer", 3, "kernel_a", 3 * 22, 3),
        ("mct_infer", 4, "kernel_b", 3 * 5, 3),
    ]
    assert machine.functions()["kernel_a"] == 6 * 22
    assert machine.functions()["outside"] == 3


def test_power_is_cut_at_the_very_instruction(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, LOOPS))
    machine.cut_at(77)
    assert machine.run() is Stop.POWER_CUT
    assert machine.instructions == 77
    assert machine.run() is Stop.OFF
    machine.power_on()
    assert machine.run(until_instructions=100) is Stop.INSTRUCTIONS


def test_ram_is_garbage_after_a_power_cut_and_kept_by_a_reset(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, LOOPS))
    machine.write(0x20001000, b"kept over reset")
    machine.reset()
    assert machine.read(0x20001000, 15) == b"kept over reset"
    machine.power_cut()
    machine.power_on()
    assert machine.read(0x20001000, 15) != b"kept over reset"


def test_cycle_counter_needs_the_trace_unit_and_counts_on(tmp_path: Path) -> None:
    text = """
    function start
    ldr r0, =0xE0001000
    ldr r1, =0xE000EDFC
    ldr r2, [r0, #4]
    ldr r3, =0x01000000
    str r3, [r1]
    movs r3, #1
    str r3, [r0]
    ldr r4, [r0, #4]
    ldr r5, [r0, #4]
    b .
    """
    machine = Machine(F446, program(tmp_path, text))
    machine.run(until_instructions=20)
    before, first, second = (machine.cpu.engine.reg_read(UC_ARM_REG_R0 + i) for i in (2, 4, 5))
    assert before == 0
    assert second > first
