"""A Cortex-M in the Unicorn emulator: executes a program and counts its instructions.

It knows its chip as the core does: memory, peripherals, and what a store to the flash does.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

from mcutrain_host.virtual.bus import Peripheral
from mcutrain_host.virtual.chip import PAGE, Chip, MemoryBank, Start
from mcutrain_host.virtual.counter import (
    NO_TARGET,
    STOPPED_AT_FPU,
    STOPPED_AT_TARGET,
    Counter,
)
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.pages import Pages
from unicorn import (
    UC_ARCH_ARM,
    UC_HOOK_BLOCK,
    UC_HOOK_INSN_INVALID,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
    UC_HOOK_TLB_FILL,
    UC_MEM_FETCH_PROT,
    UC_MEM_FETCH_UNMAPPED,
    UC_MEM_READ_PROT,
    UC_MEM_READ_UNMAPPED,
    UC_MEM_WRITE_PROT,
    UC_MODE_THUMB,
    UC_PROT_ALL,
    UC_PROT_EXEC,
    UC_PROT_NONE,
    UC_PROT_READ,
    UC_TLB_VIRTUAL,
)
from unicorn.arm_const import (
    UC_ARM_REG_CPSR,
    UC_ARM_REG_FAULTMASK,
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_R2,
    UC_ARM_REG_R3,
    UC_ARM_REG_R12,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M0,
    UC_CPU_ARM_CORTEX_M3,
    UC_CPU_ARM_CORTEX_M4,
    UC_CPU_ARM_CORTEX_M7,
    UC_CPU_ARM_CORTEX_M33,
)
from unicorn.unicorn_py3.unicorn import Uc, UcError, uclib

EMULATOR: Any = Uc
"""Its types are not published."""
MODELS = {
    "cortex-m0": UC_CPU_ARM_CORTEX_M0,
    "cortex-m0plus": UC_CPU_ARM_CORTEX_M0,
    "cortex-m3": UC_CPU_ARM_CORTEX_M3,
    "cortex-m33": UC_CPU_ARM_CORTEX_M33,
    "cortex-m4": UC_CPU_ARM_CORTEX_M4,
    "cortex-m7": UC_CPU_ARM_CORTEX_M7,
}
MODEL_FUNCTIONS = (
    "mct_feed",
    "mct_infer",
    "mct_input",
    "mct_reset",
    "mct_state_load",
    "mct_state_save",
    "mct_train",
)
"""What mct_model.c exports; its static functions are found by the name of the file."""
ADDRESSES = 1 << 32
NOWHERE = 0xFFFFFFFE
"""An address that no program comes to."""
FRAME_BYTES = 32
FRAME = (
    *(UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2, UC_ARM_REG_R3),
    *(UC_ARM_REG_R12, UC_ARM_REG_LR, UC_ARM_REG_SP, UC_ARM_REG_CPSR),
)
"""Registers that an exception keeps."""
IF_THEN = 0x600FC00
"""Bits of the status that say which instructions are conditional."""
SLICE = 2_000_000
"""Instructions between two looks at the link and at requests from outside: some 20 ms."""
ENGINES_BEFORE_COLLECTION = 8
EXCEPTIONS = {
    1: "executes an undefined instruction",
    2: "executes SVC, and no exception is modelled",
    4: "reads or writes at an address that is not aligned",
    17: "uses a coprocessor that is not there",
    18: "jumps to an even address, which is no Thumb code",
}


class Cpu:
    """The core of a chip. image: whose functions are counted, and named in faults."""

    def __init__(self, chip: Chip, image: Image) -> None:
        self.chip, self.image = chip, image
        self.engine: Any = None
        self.pc = 0
        self.dead: BoardFault | None = None
        """What it does not get beyond; a reset helps."""
        self.is_trapped = False
        """It stands at a BKPT."""
        self._actions: list[Callable[[], None]] = []
        self._repairs: list[tuple[int, bytes]] = []
        self._fault: BoardFault | None = None
        self._in_core = self._flush_wanted = False
        self._replayed: int | None = None
        self._interrupted: tuple[int, list[int]] | None = None
        self._engines = 0
        self._buffers: list[Any] = []
        model = {*MODEL_FUNCTIONS, *image.model_functions}
        self.counter = Counter(uclib, image.functions, model)
        self._code_pages = Pages(uclib)
        self._pages = self._page_table()
        self._set_code_range()

    # ----------------------------------------------------------------------------- for the board

    @property
    def instructions(self) -> int:
        """Executed since it was made."""
        return self.counter.face.count

    @instructions.setter
    def instructions(self, count: int) -> None:
        self.counter.face.count = count

    def reset(self) -> None:
        """A fresh core; memory and peripherals stay. `begin` says where it goes on."""
        self.dead = self._fault = None
        self._actions.clear()
        self._repairs.clear()
        self._interrupted = None
        self.counter.leave()
        self._make_engine()

    def begin(self, start: Start | None) -> None:
        """Let the core go on elsewhere; None: it does not, the ROM does."""
        if start is None:
            return
        if start.pc & 1 == 0 or start.stack_pointer & 3:
            self.dead = BoardFault(
                f"the vector table has stack pointer {start.stack_pointer:#010x} and reset "
                f"{start.pc:#010x}: there is no program in the flash"
            )
            return
        self.engine.reg_write(UC_ARM_REG_SP, start.stack_pointer)
        self.engine.reg_write(UC_ARM_REG_LR, 0)
        self.pc = start.pc & ~1

    def run(self, until: int | None) -> None:
        """Go on to exactly so many instructions since it was made, or for a while.

        It comes back earlier at a BKPT and where `stop` was called. Raises BoardFault.
        """
        wanted = NO_TARGET if until is None else until
        limit = min(wanted, self.instructions + SLICE)
        self._emulate(limit)
        if self.counter.face.stopped == STOPPED_AT_TARGET and limit == wanted and wanted:
            self._emulate_part(wanted - self.instructions)

    def stop(self) -> None:
        """Let `run` come back after the instruction that is executed."""
        self.engine.emu_stop()

    def between(self, action: Callable[[], None]) -> None:
        """Do something while the core stands; then the running instruction's access comes anew."""
        self._actions.append(action)
        self.stop()

    @property
    def arguments(self) -> tuple[int, int, int, int]:
        """The first four of the function whose first instruction comes now."""
        read = self.engine.reg_read
        return (
            read(UC_ARM_REG_R0),
            read(UC_ARM_REG_R1),
            read(UC_ARM_REG_R2),
            read(UC_ARM_REG_R3),
        )

    @property
    def caller(self) -> int:
        """Where that function returns to."""
        return int(self.engine.reg_read(UC_ARM_REG_LR)) & ~1

    def return_from(self, result: int) -> None:
        """Let that function be over."""
        self.engine.reg_write(UC_ARM_REG_R0, result)
        self.pc = self.caller

    @property
    def masks_faults(self) -> bool:
        """FAULTMASK is set."""
        return bool(self.engine.reg_read(UC_ARM_REG_FAULTMASK))

    def enter(self, number: int) -> None:
        """Take an exception; what it interrupts goes on when its function returns.

        One that comes while another is handled is pending until that is over, and lost then.
        """
        if self._interrupted is not None:
            return
        registers = [self.engine.reg_read(register) for register in FRAME]
        self._interrupted = self.pc, registers
        stack_pointer = self.engine.reg_read(UC_ARM_REG_SP)
        self.engine.reg_write(UC_ARM_REG_SP, (stack_pointer - FRAME_BYTES) & ~7)
        self.engine.reg_write(UC_ARM_REG_LR, NOWHERE | 1)
        self.engine.reg_write(UC_ARM_REG_CPSR, registers[-1] & ~IF_THEN)
        vectors = self.chip.system.vectors
        self.pc = int.from_bytes(self.engine.mem_read(vectors + 4 * number, 4), "little") & ~1

    def _return_from_exception(self) -> None:
        assert self._interrupted is not None
        self.pc, registers = self._interrupted
        self._interrupted = None
        for register, value in zip(FRAME, registers, strict=True):
            self.engine.reg_write(register, value)

    def protect_flash(self, readable: bool) -> None:
        """Whether the core can read the flash, and run from it."""
        flash = next(memory for memory in self.chip.memories if memory.kind == "flash")
        access = UC_PROT_READ | UC_PROT_EXEC if readable else UC_PROT_NONE
        for origin in (flash.origin, *flash.aliases):
            self.engine.mem_protect(origin, len(flash.content), access)

    def code_changed(self) -> None:
        """Something else than the core's own stores changed code. What the core is executing right
        now it executes to the next stop."""
        self.counter.flush()
        if self._in_core:
            self._flush_wanted = True
        elif self.engine is not None:
            self.engine.ctl_flush_tb()

    # -------------------------------------------------------------------------------- memory map

    def _set_code_range(self) -> None:
        """Code there changes only by flash operations, which flush."""
        flash = next((m for m in self.chip.memories if m.kind == "flash"), None)
        if flash is not None:
            self.counter.face.fixed_begin, self.counter.face.fixed_end = flash.origin, flash.end
        elif self.image.segments:
            # on a board without flash, the program does not write to itself
            begin = min(address for address, _ in self.image.segments)
            self.counter.face.fixed_begin = begin
            self.counter.face.fixed_end = begin + max(
                address + len(data) - begin for address, data in self.image.segments
            )

    def _page_table(self) -> dict[int, tuple[int, Peripheral]]:
        return {
            page: (address, device)
            for address, size, device in self.chip.devices
            for page in range(address // PAGE, (address + size) // PAGE)
        }

    def _make_engine(self) -> None:
        """A fresh core; memory and peripherals stay."""
        self._engines += 1
        if self._engines % ENGINES_BEFORE_COLLECTION == 0:
            self.engine = None
            gc.collect()  # a core and its hooks refer to each other, and hold 1 GB of address space
        engine = EMULATOR(UC_ARCH_ARM, UC_MODE_THUMB, MODELS[self.chip.core])
        self._buffers = []
        for memory in self.chip.memories:
            buffer = (ctypes.c_char * len(memory.content)).from_buffer(memory.content)
            self._buffers.append(buffer)
            access = UC_PROT_ALL if memory.kind == "ram" else UC_PROT_READ | UC_PROT_EXEC
            for origin in (memory.origin, *memory.aliases):
                for at, count in self._whole_spans(memory):
                    address = ctypes.addressof(buffer) + at
                    engine.mem_map_ptr(origin + at, count, access, address)
        for at, count in self._broken_spans():
            engine.mmio_map(at, count, self._broken_read, at, self._broken_write, at)
        for begin, end in self._mmio_spans():
            engine.mmio_map(begin, end - begin, self._mmio_read, begin, self._mmio_write, begin)
        engine.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
        _hook(engine, UC_HOOK_TLB_FILL, *self._code_pages.callback)
        for begin, last in self._outside_ram():
            # within RAM nothing is forbidden; a hook there would slow all stores down
            engine.hook_add(UC_HOOK_MEM_INVALID, self._invalid_memory, None, begin, last)
        engine.hook_add(UC_HOOK_INTR, self._exception)
        engine.hook_add(UC_HOOK_INSN_INVALID, self._invalid_instruction)
        _hook(engine, UC_HOOK_BLOCK, *self.counter.callback)
        self.engine = engine

    def _broken_spans(self) -> list[tuple[int, int]]:
        """Address and length of flash that the core reads through its controller, word by word."""
        flash = self.chip.flash
        spans = flash.broken_spans(4096) if flash is not None else []
        return [(flash.origin + at, count) for at, count in spans] if flash is not None else []

    def _whole_spans(self, memory: MemoryBank) -> list[tuple[int, int]]:
        """Offset and length of what of a memory the core reads as it is."""
        broken = self._broken_spans() if memory.kind == "flash" else []
        spans, at = [], 0
        for address, count in [*broken, (memory.origin + len(memory.content), 0)]:
            if at < address - memory.origin:
                spans.append((at, address - memory.origin - at))
            at = address - memory.origin + count
        return spans

    def _mmio_spans(self) -> list[tuple[int, int]]:
        """Spans of whole 4 KB pages, as the emulator wants them."""
        pages = sorted({page * PAGE // 4096 for page in self._pages})
        spans: list[tuple[int, int]] = []
        for page in pages:
            if spans and spans[-1][1] == page * 4096:
                spans[-1] = (spans[-1][0], page * 4096 + 4096)
            else:
                spans.append((page * 4096, page * 4096 + 4096))
        return spans

    def _outside_ram(self) -> list[tuple[int, int]]:
        """The first and the last address of each span of all others."""
        ram = [
            (origin, len(memory.content))
            for memory in self.chip.memories
            if memory.kind == "ram"
            for origin in (memory.origin, *memory.aliases)
        ]
        spans, at = [], 0
        for origin, size in [*sorted(ram), (ADDRESSES, 0)]:
            if at < origin:
                spans.append((at, origin - 1))
            at = origin + size
        return spans

    # ----------------------------------------------------------------------- the core's accesses

    def _mmio_read(self, _: Any, offset: int, size: int, begin: int) -> int:
        address = begin + offset
        found = self._pages.get(address // PAGE)
        try:
            if found is None:
                raise BoardFault(f"the firmware reads {address:#010x}, where nothing is")
            return found[1].read(address - found[0], size)
        except BoardFault as fault:
            self._stop_with(fault)
            return 0

    def _mmio_write(self, _: Any, offset: int, size: int, value: int, begin: int) -> None:
        address = begin + offset
        found = self._pages.get(address // PAGE)
        try:
            if found is None:
                raise BoardFault(f"the firmware writes to {address:#010x}, where nothing is")
            found[1].write(address - found[0], size, value)
        except BoardFault as fault:
            self._stop_with(fault)

    def _broken_read(self, _: Any, offset: int, size: int, begin: int) -> int:
        flash = self.chip.flash
        assert flash is not None
        at = begin + offset - flash.origin
        try:
            for word in flash.broken_words(at, size):
                self.chip.read_broken(word)
        except BoardFault as fault:
            self._stop_with(fault)
        return int.from_bytes(flash.bytes[at : at + size], "little")

    def _broken_write(self, _: Any, offset: int, size: int, value: int, begin: int) -> None:
        address = begin + offset
        try:
            self.chip.put(address, self.chip.store(address, size, value))
        except BoardFault as fault:
            self._stop_with(fault)

    def _invalid_memory(
        self, _: Any, kind: int, address: int, size: int, value: int, __: Any
    ) -> bool:
        if address == NOWHERE and self._interrupted is not None:
            return False  # its handler returns
        pc = self.engine.reg_read(UC_ARM_REG_PC)
        flash = self.chip.flash
        in_flash = flash is not None and 0 <= address - flash.origin < flash.size_bytes
        try:
            if kind == UC_MEM_WRITE_PROT and in_flash:
                return self._flash_write(address, size, value)
            if kind in (UC_MEM_FETCH_UNMAPPED, UC_MEM_FETCH_PROT):
                pc = self.counter.face.block
            raise BoardFault(_sentence(kind, address, size, in_flash), self.image.locate(pc), pc)
        except BoardFault as fault:
            self._stop_with(fault)
            return False

    def _flash_write(self, address: int, size: int, value: int) -> bool:
        """The emulator stores the value; what the controller makes of it is put right after."""
        if address == self._replayed:
            return True
        raw = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        result = self.chip.store(address, size, value)
        if result != raw:
            self._repairs.append((address, result))
            self.stop()
        return True

    def _exception(self, _: Any, number: int, __: Any) -> None:
        if number == 7:
            self.is_trapped = True
            self.stop()
        else:
            what = EXCEPTIONS.get(number, f"causes exception {number} of the emulator")
            self._stop_with(BoardFault(f"the firmware {what}"))

    def _invalid_instruction(self, _: Any, __: Any) -> bool:
        pc = self.engine.reg_read(UC_ARM_REG_PC)
        what = f"executes an instruction that a {self.chip.core} does not have"
        self._stop_with(BoardFault(f"the firmware {what}", self.image.locate(pc), pc))
        return False

    def _stop_with(self, fault: BoardFault) -> None:
        self._fault = self._fault or fault
        self.stop()

    # ----------------------------------------------------------------------------------- running

    def _emulate(self, limit: int, until: int = NOWHERE) -> None:
        """Run to the first stop of any kind, then see to what it was for."""
        face = self.counter.face
        face.target, face.stopped = limit, 0
        face.fpu_allowed = self.chip.system.fpu_allowed
        error: UcError | None = None
        self._in_core = True
        try:
            self.engine.emu_start(self.pc | 1, until)
        except UcError as raised:
            error = raised
        finally:
            self._in_core = False
            self.pc = self.engine.reg_read(UC_ARM_REG_PC) & ~1
            if not face.stopped:
                self.counter.uncount(self.engine._uch, self.pc)
        if self.pc == NOWHERE and self._interrupted is not None:
            error = None
            self._return_from_exception()
        self._see_to_faults(error)
        self._see_to_actions()

    def _emulate_part(self, instructions: int) -> None:
        """Some instructions of the block that begins here; the emulator stops at an address, so it
        must translate the block anew."""
        face = self.counter.face
        if instructions == 0:
            return
        begin, end = face.block, face.block + face.block_bytes
        until = begin
        for _ in range(instructions):
            until += self._length_at(until)
        self.engine.ctl_remove_cache(begin, end)
        self._emulate(NO_TARGET, until)
        self.engine.ctl_remove_cache(begin, end)

    def _length_at(self, address: int) -> int:
        halfword = int.from_bytes(self.engine.mem_read(address, 2), "little")
        return 4 if halfword >> 11 >= 0x1D else 2

    def _see_to_faults(self, error: UcError | None) -> None:
        if self.counter.face.stopped == STOPPED_AT_FPU and not self.chip.system.fpu_allowed:
            self._fault = BoardFault(
                "the firmware uses the floating-point unit, which is off after a reset",
                self.image.locate(self.counter.face.block),
            )
        if self._fault is None and error is not None:
            self._fault = BoardFault(f"the emulator gave up: {error}", self.image.locate(self.pc))
        if self._fault is not None:
            fault, self._fault = self._fault, None
            if not fault.where:
                fault = BoardFault(fault.what, self.image.locate(self.pc), self.pc)
            self.dead = fault
            raise fault

    def _see_to_actions(self) -> None:
        if self._repairs:
            self._repair()
        actions, self._actions = self._actions, []
        for action in actions:
            action()
        if self._flush_wanted:
            self._flush_wanted = False
            self.engine.ctl_flush_tb()

    def _repair(self) -> None:
        """A store to the flash had another effect than a store to RAM. The emulator stands at the
        store, which it must do once more, to go on; so put right what it did afterwards."""
        repairs, self._repairs = self._repairs, []
        self._replayed = repairs[0][0]
        self.counter.face.block, self.counter.face.block_bytes = self.pc, 4
        self._emulate_part(1)
        self._replayed = None
        for address, data in repairs:
            self.chip.put(address, data)


def _hook(engine: Any, kind: int, function: ctypes.c_void_p, user_data: ctypes.c_void_p) -> None:
    """Let C code be called, wherever in memory."""
    everywhere = ctypes.c_uint64(1), ctypes.c_uint64(0)
    handle = ctypes.byref(ctypes.c_size_t())
    uclib.uc_hook_add(engine._uch, handle, kind, function, user_data, *everywhere)


def _sentence(kind: int, address: int, size: int, in_flash: bool) -> str:
    """Return what an access that memory does not allow is called."""
    at = f"{address:#010x}"
    if kind in (UC_MEM_FETCH_UNMAPPED, UC_MEM_FETCH_PROT):
        return f"the firmware jumps to {at}, where no code is"
    reads = kind in (UC_MEM_READ_UNMAPPED, UC_MEM_READ_PROT)
    verb = f"reads {size} bytes from" if reads else f"writes {size} bytes to"
    if reads and in_flash:
        return f"the firmware {verb} {at} while the flash cannot be read as memory"
    if kind == UC_MEM_WRITE_PROT:
        return f"the firmware {verb} {at}, which is read-only"
    return f"the firmware {verb} {at}, where the chip has nothing"
