"""Code in RAM is what was stored there last, and stores to data are not looked at."""

import ctypes
import gc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.machine import Machine
from mcutrain_host.virtual.pages import Pages

from tests.host.virtual.programs import F446, PICO, pico_program, program

READ, WRITE, FETCH = 16, 17, 18
DATA, CODE = 3, 7
CALLS = 40
RESULTS = 0x20000800
REWRITING = f"""
    function start
    ldr r4, =0x20000400
    ldr r5, =0x2001
    ldr r6, =0x4770
    ldr r7, ={RESULTS:#x}
again:
    strh r5, [r4]
    strh r6, [r4, #2]
    adds r5, #1
    strh r5, [r4, #4]
    strh r6, [r4, #6]
    adds r5, #1
    adds r4, #1
    blx r4
    stmia r7!, {{r0}}
    adds r4, #4
    blx r4
    stmia r7!, {{r0}}
    subs r4, #5
    b again
    .size start, . - start
"""
"""Writes `movs r0, #n` and `bx lr` twice into a page, calls both, stores what they return; then the
same with the next two numbers, and so on."""
PAGES = 30
CONDITIONAL = f"""
    function start
    ldr r4, =0x20001000
    ldr r7, ={RESULTS:#x}
    movs r5, #0
again:
    cmp r5, r5
    itt eq
    streq r5, [r4]
    ldreq r6, [r4]
    cmp r5, r4
    b next
next:
    adds r5, #1
    str r5, [r7]
    add r4, r4, #0x400
    b again
    .size start, . - start
"""
"""Counts pages that it touches in an IT block; a later instruction is not conditional."""
ACCESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def ignored(engine: int, register: int, value: int) -> int:
    return 0


@pytest.mark.parametrize(("spec", "assembled"), [(F446, program), (PICO, pico_program)])
def test_code_in_ram_is_what_was_stored_last(
    spec: BoardDescription, assembled: Callable[[Path, str], Image], tmp_path: Path
) -> None:
    machine = Machine(spec, assembled(tmp_path, REWRITING))
    machine.run(until_instructions=20 * CALLS)
    found = np.frombuffer(machine.read(RESULTS, 4 * CALLS), "<u4")
    assert found.tolist() == list(range(1, CALLS + 1))


def test_conditions_end_where_the_first_access_to_a_page_is_conditional(tmp_path: Path) -> None:
    """As compilers write it with -Os."""
    machine = Machine(F446, program(tmp_path, CONDITIONAL))
    machine.run(until_instructions=3 + 10 * PAGES)
    assert int.from_bytes(machine.read(RESULTS, 4), "little") == PAGES


def test_a_page_is_data_until_something_is_executed_in_it() -> None:
    pages = Pages(SimpleNamespace(uc_reg_read=ACCESS(ignored), uc_reg_write=ACCESS(ignored)))
    function, itself = pages.callback
    entry = (ctypes.c_uint64 * 2)()
    pointer = ctypes.c_void_p
    types = (pointer, ctypes.c_uint64, ctypes.c_int, pointer, pointer)
    access = ctypes.CFUNCTYPE(ctypes.c_bool, *types)(function.value)
    for address in (0, 0x400, 0x20000000, 0xFFFFFC00):
        found = []
        for kind in (READ, WRITE, FETCH, WRITE, READ):
            entry[1] = 0
            assert access(None, address, kind, ctypes.addressof(entry), itself)
            assert entry[0] == address
            found.append(entry[1])
        assert found == [DATA, DATA, CODE, CODE, CODE]


def test_pages_keep_what_they_call() -> None:
    """Whoever made them may be gone; in its place may be something else."""
    others: list[int] = []

    def other(engine: int, register: int, value: int) -> int:
        others.append(register)
        return 0

    pages = Pages(SimpleNamespace(uc_reg_read=ACCESS(ignored), uc_reg_write=ACCESS(ignored)))
    gc.collect()
    in_their_place = [ACCESS(other) for _ in range(50)]
    function, itself = pages.callback
    types = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    access = ctypes.CFUNCTYPE(ctypes.c_bool, *types)(function.value)
    assert access(None, 0, READ, ctypes.addressof((ctypes.c_uint64 * 2)()), itself)
    assert in_their_place
    assert not others


def test_no_access_to_ram_is_looked_at_and_every_other_is(tmp_path: Path) -> None:
    machine = Machine(F446, program(tmp_path, REWRITING))
    spans = machine.cpu._outside_ram()
    ram = [m for m in machine.chip.memories if m.kind == "ram"]
    covered = sorted([*spans, *((m.origin, m.end - 1) for m in ram)])
    assert covered[0][0] == 0
    assert covered[-1][1] == 0xFFFFFFFF
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(covered))
