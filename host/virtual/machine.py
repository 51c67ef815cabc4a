"""A board in the Unicorn CPU emulator: runs the firmware's ELF file as the chip would.

Time is the number of executed instructions, plus what the core spends waiting. A board with the
same program, link, seed and calls does the same again, apart from when bytes come over the link.
"""

from __future__ import annotations

import ctypes
import enum
import gc
import random
from collections.abc import Callable
from typing import Any

from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual.bus import Device
from mcutrain_host.virtual.chips import PAGE, Memory, Start, make_chip
from mcutrain_host.virtual.counter import (
    NO_TARGET,
    STOPPED_AT_FPU,
    STOPPED_AT_TARGET,
    Counter,
    OperatorCount,
)
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import ERASED, Timing
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.link import Link, LoopbackLink
from mcutrain_host.virtual.serial_line import SerialLine
from unicorn import (
    UC_ARCH_ARM,
    UC_HOOK_BLOCK,
    UC_HOOK_INSN_INVALID,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
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
)
from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_R2,
    UC_ARM_REG_R3,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M0,
    UC_CPU_ARM_CORTEX_M3,
    UC_CPU_ARM_CORTEX_M4,
    UC_CPU_ARM_CORTEX_M7,
)
from unicorn.unicorn_py3.unicorn import Uc, UcError, uclib

EMULATOR: Any = Uc
"""Its types are not published."""
MODELS = {
    "cortex-m0plus": UC_CPU_ARM_CORTEX_M0,
    "cortex-m3": UC_CPU_ARM_CORTEX_M3,
    "cortex-m4": UC_CPU_ARM_CORTEX_M4,
    "cortex-m7": UC_CPU_ARM_CORTEX_M7,
}
MODEL_FUNCTIONS = (
    "mct_infer",
    "mct_input",
    "mct_reset",
    "mct_state_load",
    "mct_state_save",
    "mct_train",
)
"""What mct_model.c exports; its static functions are found by the name of the file."""
NOWHERE = 0xFFFFFFFE
"""An address that no program comes to."""
SLICE = 2_000_000
"""Instructions between two looks at the link and at requests from outside: some 20 ms."""
WAIT_SECONDS = 0.05
"""How long the firmware's waiting may keep requests from outside waiting."""
ENGINES_BEFORE_COLLECTION = 8
PAINT = b"\xa5"
PREFETCH_ABORT = 3
EXCEPTIONS = {
    1: "executes an undefined instruction",
    2: "executes SVC, and no exception is modelled",
    PREFETCH_ABORT: "jumps to an address that has no code",
    4: "reads or writes at an address that is not aligned",
    17: "uses a coprocessor that is not there",
    18: "jumps to an even address, which is no Thumb code",
}


class Stop(enum.Enum):
    """Why `Machine.run` came back."""

    INSTRUCTIONS = "the wanted number of instructions was executed"
    IDLE = "the firmware waits for a byte"
    POWER_CUT = "the power was cut"
    OFF = "the board has no power"
    REQUESTED = "another thread asked for it"


class _PowerCut(Exception):  # noqa: N818  # nothing is wrong
    """The time of the cut came while the ROM was busy."""


class Machine:
    """One board. spec: the description in a project's manifest; image: what its flash holds.

    link: the UART's other end. seed: of all that is random, such as RAM after power-on. boot0: the
    board's boot button or pin. instructions_per_byte: of the UART; 0 lets bytes wait until they are
    read. track_stack: follow the stack pointer, at half the speed.
    """

    def __init__(
        self,
        spec: BoardDescription,
        image: Image | None = None,
        link: Link | None = None,
        *,
        seed: int = 0,
        boot0: bool = False,
        instructions_per_byte: int = 0,
        track_stack: bool = False,
        timing: Timing | None = None,
    ) -> None:
        self.spec, self.image = spec, image or Image()
        self.link: Link = link or LoopbackLink()
        self.boot0 = boot0
        self.random = random.Random(seed)
        self.powered = False
        self.instructions_per_byte = instructions_per_byte
        self._skipped = self._last_now = 0
        self._cut_at: int | None = None
        self._cut_during: tuple[str, int] | None = None
        self._until_idle = self._idle = self._requested = self._reset_wanted = False
        self._actions: list[Callable[[], None]] = []
        self._repairs: list[tuple[int, bytes]] = []
        self._fault: BoardFault | None = None
        self._dead: BoardFault | None = None
        self._trapped = self._in_core = self._flush_wanted = False
        self._replayed: int | None = None
        self._pc = 0
        self._engine: Any = None
        self._engines = 0
        self._buffers: list[Any] = []
        model = {*MODEL_FUNCTIONS, *self.image.model_functions}
        self.counter = Counter(uclib, self.image.functions, model)
        self.counter.face.track_stack = track_stack
        self.chip = make_chip(self, spec, timing or Timing())
        self._pages = self._page_table()
        self._set_code_range()
        self.program(self.image)
        self.power_on()

    # ------------------------------------------------------------------ for whoever has the board

    @property
    def instructions(self) -> int:
        """Executed since the board was made."""
        return self.counter.face.count

    def run(self, until_instructions: int | None = None, until_idle: bool = False) -> Stop:
        """Let the board run; by default for ever. Raises BoardFault.

        until_instructions: comes back when exactly so many were executed, since the board was made.
        until_idle: when the firmware waits for a byte.
        """
        self._until_idle, self._idle = until_idle, False
        while True:
            if self._dead is not None:
                raise self._dead
            if not self.powered:
                return Stop.OFF
            if self._requested:
                self._requested = False
                return Stop.REQUESTED
            if self._cut_at is not None and self.instructions >= self._cut_at:
                self.power_cut()
                return Stop.POWER_CUT
            if until_instructions is not None and self.instructions >= until_instructions:
                return Stop.INSTRUCTIONS
            if self._idle:
                return Stop.IDLE
            self._run_a_while(until_instructions)

    def stop(self) -> None:
        """Let `run`, in another thread, come back soon."""
        self._requested = True

    def power_cut(self) -> None:
        """Take the power away: RAM is lost, a flash operation under way is broken off."""
        self.chip.serial.flush()
        if self.chip.flash is not None:
            self.chip.flash.power_cut(self.now, self.random)
        self._forget_ram()
        self.powered, self._cut_at, self._cut_during = False, None, None

    def power_on(self) -> None:
        """Give the board power, and reset it."""
        self._forget_ram()
        for address, data in self.image.segments:
            self._write_ram(address, data)
        for _, _, device in self.chip.devices:
            device.reset()
        self.powered = True
        self.reset()

    def reset(self) -> None:
        """The reset button. RAM keeps its content."""
        self._dead = self._fault = None
        self._actions.clear()
        self._repairs.clear()
        self._reset_wanted = self._idle = False
        if self.chip.flash is not None:
            self.chip.flash.operation = None
        self.counter.leave()
        self._make_engine()
        self.chip.reset_devices()
        self._begin(self.chip.start())

    def cut_at(self, instructions: int | None) -> None:
        """Cut the power when exactly so many instructions were executed; None: not at all."""
        self._cut_at = instructions

    def cut_during(self, kind: str, index: int = 0) -> None:
        """Cut the power within a flash operation: kind `erase` or `program`, and how many of the
        kind come before."""
        self._cut_during = (kind, index)

    def program(self, image: Image) -> None:
        """Put a program into the flash as a debug probe would: its sectors are erased first."""
        self.image = image
        flash = self.chip.flash
        if flash is None:
            return
        spans = [(address - flash.origin, data) for address, data in image.segments]
        inside = [(at, data) for at, data in spans if 0 <= at < flash.size_bytes]
        for number, (begin, size) in enumerate(flash.sectors):
            if any(at < begin + size and begin < at + len(data) for at, data in inside):
                flash.erase_now(number)
        for at, data in inside:
            if at + len(data) > flash.size_bytes:
                raise VirtualBoardError("the program is larger than the chip's flash")
            flash.put(flash.origin + at, data)
        self.code_changed()

    def read(self, address: int, count: int) -> bytes:
        """Bytes of memory. Raises VirtualBoardError if there is none."""
        memory = self._memory(address, count)
        return bytes(memory.content[address - memory.origin :][:count])

    def write(self, address: int, data: bytes) -> None:
        """Change memory as nothing on the board could."""
        memory = self._memory(address, len(data))
        begin = address - memory.origin
        memory.content[begin : begin + len(data)] = data
        self.code_changed()

    def flip_bit(self, address: int, bit: int) -> None:
        """Change one bit of memory. bit: 0 to 7 of that byte."""
        self.write(address, bytes([self.read(address, 1)[0] ^ 1 << bit]))

    @property
    def stack_high_water(self) -> int:
        """The most bytes of stack used at once, from the paint that start-up puts there."""
        labels = self.image.labels
        bottom, top = labels.get("mct_stack_bottom"), labels.get("mct_stack_top")
        if bottom is None or top is None:
            raise VirtualBoardError("the firmware has no symbols mct_stack_bottom and _top")
        return len(self.read(bottom, top - bottom).lstrip(PAINT))

    @property
    def lowest_stack_pointer(self) -> int:
        """At the begin of any basic block, if `track_stack` was given; else 0xFFFFFFFF."""
        return self.counter.face.lowest_sp

    def functions(self) -> dict[str, int]:
        """Instructions by function."""
        return self.counter.by_function()

    def operators(self) -> list[OperatorCount]:
        """Instructions by call that the model's code makes."""
        return self.counter.operators()

    @property
    def in_rom(self) -> bool:
        """Does the ROM's bootloader run, and wait for a program?"""
        return self.chip.loader is not None or self.chip.ignores_uart

    # --------------------------------------------------------------------------- for peripherals

    @property
    def now(self) -> int:
        """Time in instructions; each reading is later than the one before."""
        self._last_now = max(self.counter.face.count + self._skipped, self._last_now + 1)
        return self._last_now

    def skip(self, instructions: int) -> None:
        """The core waits."""
        self._skipped += max(instructions, 0)

    def spend(self, instructions: int) -> None:
        """The core executes code of the ROM, which may be cut short."""
        face = self.counter.face
        if self._cut_at is not None and self._cut_at < face.count + instructions:
            face.count = max(self._cut_at, face.count)
            raise _PowerCut
        face.count += instructions

    def between(self, action: Callable[[], None]) -> None:
        """Do something while the core stands; then the running instruction's access comes anew."""
        self._actions.append(action)
        self._engine.emu_stop()

    def request_reset(self) -> None:
        """Reset the chip in the place of the next instruction."""
        self._reset_wanted = True
        self._engine.emu_stop()

    def idle(self) -> None:
        """The firmware waits for a byte."""
        if self._until_idle:
            self._idle = True
            self._engine.emu_stop()
        else:
            self.link.wait(WAIT_SECONDS)
            if self._requested:
                self._engine.emu_stop()

    def operation_started(self, kind: str) -> None:
        """A flash operation began."""
        if self._cut_during is None or self._cut_during[0] != kind:
            return
        kind, left = self._cut_during
        if left:
            self._cut_during = (kind, left - 1)
        else:
            self._cut_during = None
            self._cut_at = 0
            self._engine.emu_stop()

    def line(self, depth: int) -> SerialLine:
        """The UART's wire."""
        return SerialLine(self, self.link, depth, self.instructions_per_byte)

    def protect_flash(self, readable: bool) -> None:
        """Whether the core can read the flash, and run from it."""
        flash = next(memory for memory in self.chip.memories if memory.kind == "flash")
        access = UC_PROT_READ | UC_PROT_EXEC if readable else UC_PROT_NONE
        for origin in (flash.origin, *flash.aliases):
            self._engine.mem_protect(origin, len(flash.content), access)

    def code_changed(self) -> None:
        """Something else than the core's own stores changed code. What the core is executing right
        now it executes to the next stop."""
        self.counter.flush()
        if self._in_core:
            self._flush_wanted = True
        elif self._engine is not None:
            self._engine.ctl_flush_tb()

    # -------------------------------------------------------------------------------- memory map

    def _memory(self, address: int, count: int) -> Memory:
        for memory in self.chip.memories:
            if memory.origin <= address and address + count <= memory.end:
                return memory
        raise VirtualBoardError(f"the chip has no {count} bytes of memory at {address:#x}")

    def _forget_ram(self) -> None:
        """Garbage: firmware must not count on zeros."""
        for memory in self.chip.memories:
            if memory.kind == "ram":
                memory.content[:] = self.random.randbytes(len(memory.content))

    def _write_ram(self, address: int, data: bytes) -> None:
        for memory in self.chip.memories:
            begin = address - memory.origin
            if memory.kind == "ram" and begin >= 0 and address + len(data) <= memory.end:
                memory.content[begin : begin + len(data)] = data

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

    def _page_table(self) -> dict[int, tuple[int, Device]]:
        return {
            page: (address, device)
            for address, size, device in self.chip.devices
            for page in range(address // PAGE, (address + size) // PAGE)
        }

    def _make_engine(self) -> None:
        """A fresh core; memory and peripherals stay."""
        self._engines += 1
        if self._engines % ENGINES_BEFORE_COLLECTION == 0:
            self._engine = None
            gc.collect()  # a core and its hooks refer to each other, and hold 1 GB of address space
        engine = EMULATOR(UC_ARCH_ARM, UC_MODE_THUMB, MODELS[self.chip.core])
        self._buffers = []
        for memory in self.chip.memories:
            buffer = (ctypes.c_char * len(memory.content)).from_buffer(memory.content)
            self._buffers.append(buffer)
            access = UC_PROT_ALL if memory.kind == "ram" else UC_PROT_READ | UC_PROT_EXEC
            for origin in (memory.origin, *memory.aliases):
                engine.mem_map_ptr(origin, len(buffer), access, ctypes.addressof(buffer))
        for begin, end in self._mmio_spans():
            engine.mmio_map(begin, end - begin, self._mmio_read, begin, self._mmio_write, begin)
        engine.hook_add(UC_HOOK_MEM_INVALID, self._invalid_memory)
        engine.hook_add(UC_HOOK_INTR, self._exception)
        engine.hook_add(UC_HOOK_INSN_INVALID, self._invalid_instruction)
        function, user_data = self.counter.callback
        uclib.uc_hook_add(
            engine._uch,
            ctypes.byref(ctypes.c_size_t()),
            UC_HOOK_BLOCK,
            function,
            user_data,
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )
        self._engine = engine

    def _mmio_spans(self) -> list[tuple[int, int]]:
        """Of whole 4 KB pages, as the emulator wants them."""
        pages = sorted({page * PAGE // 4096 for page in self._pages})
        spans: list[tuple[int, int]] = []
        for page in pages:
            if spans and spans[-1][1] == page * 4096:
                spans[-1] = (spans[-1][0], page * 4096 + 4096)
            else:
                spans.append((page * 4096, page * 4096 + 4096))
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

    def _invalid_memory(
        self, _: Any, kind: int, address: int, size: int, value: int, __: Any
    ) -> bool:
        pc = self._engine.reg_read(UC_ARM_REG_PC)
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
        controller = getattr(self.chip, "controller", None)
        if controller is None:
            raise BoardFault(f"the firmware writes to {address:#010x}, which is read-only")
        if address == self._replayed:
            return True
        raw = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        result = controller.program(address, size, value)
        if result != raw:
            self._repairs.append((address, result))
            self._engine.emu_stop()
        return True

    def _exception(self, _: Any, number: int, __: Any) -> None:
        if number == 7:
            self._trapped = True
            self._engine.emu_stop()
        else:
            what = EXCEPTIONS.get(number, f"causes exception {number} of the emulator")
            pc = self.counter.face.block if number == PREFETCH_ABORT else None
            where = "" if pc is None else self.image.locate(pc)
            self._stop_with(BoardFault(f"the firmware {what}", where, pc))

    def _invalid_instruction(self, _: Any, __: Any) -> bool:
        pc = self._engine.reg_read(UC_ARM_REG_PC)
        what = f"executes an instruction that a {self.chip.core} does not have"
        self._stop_with(BoardFault(f"the firmware {what}", self.image.locate(pc), pc))
        return False

    def _stop_with(self, fault: BoardFault) -> None:
        self._fault = self._fault or fault
        self._engine.emu_stop()

    # ----------------------------------------------------------------------------------- running

    def _run_a_while(self, until: int | None) -> None:
        if self._reset_wanted:
            self.reset()
        if self.in_rom:
            self._run_rom()
            return
        wanted = min(x for x in (until, self._cut_at, NO_TARGET) if x is not None)
        limit = min(wanted, self.instructions + SLICE)
        try:
            self._emulate(limit)
            if self.counter.face.stopped == STOPPED_AT_TARGET and limit == wanted and wanted:
                self._emulate_part(wanted - self.instructions)
            if self._trapped:
                self._trap()
        except _PowerCut:
            pass  # `run` sees that its time has come
        finally:
            self.chip.serial.flush()

    def _emulate(self, limit: int, until: int = NOWHERE) -> None:
        """Run to the first stop of any kind, then see to what it was for."""
        face = self.counter.face
        face.target, face.stopped = limit, 0
        face.fpu_allowed = self.chip.system.fpu_allowed
        error: UcError | None = None
        self._in_core = True
        try:
            self._engine.emu_start(self._pc | 1, until)
        except UcError as raised:
            error = raised
        finally:
            self._in_core = False
            self._pc = self._engine.reg_read(UC_ARM_REG_PC) & ~1
            if not face.stopped:
                self.counter.uncount(self._engine._uch, self._pc)
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
        self._engine.ctl_remove_cache(begin, end)
        self._emulate(NO_TARGET, until)
        self._engine.ctl_remove_cache(begin, end)

    def _length_at(self, address: int) -> int:
        halfword = int.from_bytes(self._engine.mem_read(address, 2), "little")
        return 4 if halfword >> 11 >= 0x1D else 2

    def _see_to_faults(self, error: UcError | None) -> None:
        if self.counter.face.stopped == STOPPED_AT_FPU and not self.chip.system.fpu_allowed:
            self._fault = BoardFault(
                "the firmware uses the floating-point unit, which is off after a reset",
                self.image.locate(self.counter.face.block),
            )
        if self._fault is None and error is not None:
            self._fault = BoardFault(f"the emulator gave up: {error}", self.image.locate(self._pc))
        if self._fault is not None:
            fault, self._fault = self._fault, None
            if not fault.where:
                fault = BoardFault(fault.what, self.image.locate(self._pc), self._pc)
            self.chip.serial.flush()
            self._dead = fault
            raise fault

    def _see_to_actions(self) -> None:
        if self._repairs:
            self._repair()
        actions, self._actions = self._actions, []
        for action in actions:
            action()
        if self._flush_wanted:
            self._flush_wanted = False
            self._engine.ctl_flush_tb()

    def _repair(self) -> None:
        """A store to the flash had another effect than a store to RAM. The emulator stands at the
        store, which it must do once more, to go on; so put right what it did afterwards."""
        repairs, self._repairs = self._repairs, []
        self._replayed = repairs[0][0]
        self.counter.face.block, self.counter.face.block_bytes = self._pc, 4
        self._emulate_part(1)
        self._replayed = None
        for address, data in repairs:
            memory = self._memory(address, len(data))
            begin = address - memory.origin
            memory.content[begin : begin + len(data)] = data

    def _trap(self) -> None:
        """The core came to a BKPT."""
        self._trapped = False
        read = self._engine.reg_read
        arguments = (
            read(UC_ARM_REG_R0),
            read(UC_ARM_REG_R1),
            read(UC_ARM_REG_R2),
            read(UC_ARM_REG_R3),
        )
        try:
            result = self.chip.trap(self._pc, arguments)
        except BoardFault as fault:
            # a function of the ROM is blamed on its caller
            in_rom = self._pc < 0x4000 and self.chip.core == "cortex-m0plus"
            pc = (read(UC_ARM_REG_LR) & ~1) - 2 if in_rom else self._pc
            self._dead = BoardFault(fault.what, self.image.locate(pc), pc)
            raise self._dead from None
        if isinstance(result, int):
            self._engine.reg_write(UC_ARM_REG_R0, result)
            self._pc = read(UC_ARM_REG_LR) & ~1
        else:
            self._begin(result)

    def _begin(self, start: Start | None) -> None:
        """Let the core go on elsewhere; None: it does not, the ROM does."""
        if start is None:
            return
        if start.pc & 1 == 0 or start.stack_pointer & 3:
            self._dead = BoardFault(
                f"the vector table has stack pointer {start.stack_pointer:#010x} and reset "
                f"{start.pc:#010x}: there is no program in the flash"
            )
            return
        self._engine.reg_write(UC_ARM_REG_SP, start.stack_pointer)
        self._engine.reg_write(UC_ARM_REG_LR, 0)
        self._pc = start.pc & ~1

    def _run_rom(self) -> None:
        """Give the ROM's bootloader what came; one that listens elsewhere lets it go by."""
        line, loader = self.chip.serial, self.chip.loader
        line.pump()
        if not line.holds:
            line.flush()
            self.idle()
            return
        while line.holds:
            byte = line.take()
            if loader is not None:
                loader.take(byte)
                if loader.left:
                    line.flush()
                    self._leave_rom()
                    return
        line.flush()

    def _leave_rom(self) -> None:
        """A program was started from the bootloader; nobody holds the boot button any more."""
        start, self.boot0 = self.chip.go_to, False
        self.counter.leave()
        self._make_engine()
        self.chip.reset_devices()
        self._begin(start)


def _sentence(kind: int, address: int, size: int, in_flash: bool) -> str:
    """What an access that memory does not allow is called."""
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


__all__ = ["ERASED", "Machine", "Stop"]
