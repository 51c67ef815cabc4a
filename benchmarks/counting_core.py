"""A program in Unicorn that counts the instructions of its functions: what cores have in common."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile
from mcutrain_host.virtual.counter import Counter
from unicorn import UC_ARCH_ARM, UC_HOOK_BLOCK, UC_MODE_MCLASS, UC_MODE_THUMB, Uc
from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_R0, UC_ARM_REG_SP
from unicorn.unicorn_py3.unicorn import uclib

ORIGIN, RAM, MEMORY_BYTES = 0x10000, 0x20000000, 8 << 20
"""Where a Cortex-M's program lies, and its RAM."""
RETURN = ORIGIN + MEMORY_BYTES - 256
STACK_TOP = RAM + MEMORY_BYTES - 256
LINKER_SCRIPT = f"""
SECTIONS {{
    . = {ORIGIN:#x};
    .text : {{ *(.text*) *(.rodata*) }}
    . = {RAM:#x};
    .bss : {{ *(.data*) *(.bss*) *(COMMON) }}
    /DISCARD/ : {{ *(.ARM.*) }}
}}
"""


class CountingCore:
    """A processor with a program. count: instructions so far.

    memory: (address, bytes) of what is mapped.
    """

    def __init__(self, engine: Uc, elf: Path, memory: Sequence[tuple[int, int]]) -> None:
        with elf.open("rb") as file:
            program = ELFFile(file)
            symbols = program.get_section_by_name(".symtab").iter_symbols()
            self.addresses = {symbol.name: symbol["st_value"] for symbol in symbols}
            parts = [(s["p_vaddr"], s.data()) for s in program.iter_segments("PT_LOAD")]
        self.engine, self.count, self.blocks = engine, 0, {}
        for address, size_bytes in memory:
            engine.mem_map(address, size_bytes)
        for address, data in parts:
            engine.mem_write(address, data)
        self.watch()

    def watch(self) -> None:
        """Count from here on."""
        self.engine.hook_add(UC_HOOK_BLOCK, self._entered)

    def length(self, code: bytes, at: int) -> int:
        """Bytes of the instruction at this place: 2 or 4."""
        raise NotImplementedError

    def write(self, variable: str, data: bytes) -> None:
        """Write a variable of the program."""
        self.engine.mem_write(self.addresses[variable], data)

    def read(self, variable: str, size_bytes: int) -> bytes:
        """Read a variable of the program."""
        return bytes(self.engine.mem_read(self.addresses[variable], size_bytes))

    def _entered(self, engine: Uc, address: int, size_bytes: int, _: object) -> None:
        if (address, size_bytes) not in self.blocks:
            code, at, count = engine.mem_read(address, size_bytes), 0, 0
            while at < size_bytes:
                at += self.length(code, at)
                count += 1
            self.blocks[address, size_bytes] = count
        self.count += self.blocks[address, size_bytes]


class CortexM(CountingCore):
    """A Cortex-M. cpu: Unicorn's number of a core that executes the program."""

    def __init__(self, elf: Path, cpu: int) -> None:
        engine = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        engine.ctl_set_cpu_model(cpu)
        super().__init__(engine, elf, [(ORIGIN, MEMORY_BYTES), (RAM, MEMORY_BYTES)])

    def watch(self) -> None:
        """By C, which takes a hundredth of Python's time."""
        self._counter = thumb_counter(self.engine, ORIGIN, ORIGIN + MEMORY_BYTES)

    def call(self, function: str, argument: int = 0) -> int:
        """What a function returns; `count` has its instructions."""
        self._counter.face.count = 0
        self.engine.reg_write(UC_ARM_REG_SP, STACK_TOP)
        self.engine.reg_write(UC_ARM_REG_LR, RETURN | 1)
        self.engine.reg_write(UC_ARM_REG_R0, argument)
        self.engine.emu_start(self.addresses[function] | 1, RETURN)
        self.count = self._counter.face.count
        return int(self.engine.reg_read(UC_ARM_REG_R0))


def thumb_counter(engine: Uc, begin: int, end: int) -> Counter:
    """Count what a Cortex-M executes from here on; its code lies between these addresses."""
    counter = Counter(uclib, (), ())
    counter.face.fpu_allowed = 1
    counter.face.fixed_begin, counter.face.fixed_end = begin, end
    everywhere, handle = (ctypes.c_uint64(1), ctypes.c_uint64(0)), ctypes.byref(ctypes.c_size_t())
    uclib.uc_hook_add(engine._uch, handle, UC_HOOK_BLOCK, *counter.callback, *everywhere)
    return counter
