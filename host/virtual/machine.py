"""A board around an emulated CPU: runs the firmware's ELF file as the chip would.

Time is the number of executed instructions, plus what the core spends waiting. A board with the
same program, link, seed and calls does the same again, apart from when bytes come over the link.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable

from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual.chips import make_chip
from mcutrain_host.virtual.counter import OperatorCount
from mcutrain_host.virtual.cpu import Cpu
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import FlashTiming
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.link import LoopbackLink, UartLink
from mcutrain_host.virtual.sensor import ADDRESS, Sensor
from mcutrain_host.virtual.serial_line import SerialLine

WAIT_SECONDS = 0.05
"""How long the firmware's waiting may keep requests from outside waiting."""

WAITS = 2
"""Times that firmware waits for a byte before what happens meanwhile counts as seen."""


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
    read. pace_hz: of the core, if what is played is to come no faster than it would there; 0: it
    comes as fast as the firmware takes it.
    """

    def __init__(
        self,
        spec: BoardDescription,
        image: Image | None = None,
        link: UartLink | None = None,
        *,
        seed: int = 0,
        boot0: bool = False,
        instructions_per_byte: int = 0,
        pace_hz: int = 0,
        timing: FlashTiming | None = None,
    ) -> None:
        self.spec, self.image = spec, image or Image()
        self.link: UartLink = link or LoopbackLink()
        self.boot0 = boot0
        self.random = random.Random(seed)
        self.powered = False
        self.instructions_per_byte, self.pace_hz = instructions_per_byte, pace_hz
        self._skipped = self._last_now = self._waits = 0
        self._cut_at: int | None = None
        self._cut_during: tuple[str, int] | None = None
        self._until_idle = self._idle = self._requested = self._reset_wanted = False
        self.chip = make_chip(self, spec, timing or FlashTiming())
        self.sensor = Sensor(self)
        self.chip.add(ADDRESS, self.sensor)
        self.cpu = Cpu(self.chip, self.image)
        self.program(self.image)
        self.power_on()

    # ------------------------------------------------------------------ for whoever has the board

    @property
    def instructions(self) -> int:
        """Executed since the board was made."""
        return self.cpu.instructions

    def run(self, until_instructions: int | None = None, until_idle: bool = False) -> Stop:
        """Let the board run; by default for ever. Raises BoardFault.

        until_instructions: comes back when exactly so many were executed, since the board was made.
        until_idle: when the firmware waits for a byte.
        """
        self._until_idle, self._idle = until_idle, False
        while True:
            if self.cpu.dead is not None:
                raise self.cpu.dead
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
        self.chip.power_on()
        self.powered = True
        self.reset()

    def reset(self) -> None:
        """The reset button. RAM keeps its content."""
        self._reset_wanted = self._idle = False
        if self.chip.flash is not None:
            self.chip.flash.operation = None
        self.cpu.reset()
        self.chip.reset_devices()
        self.cpu.begin(self.chip.start())

    def press(self, is_down: bool, instructions: int) -> None:
        """Push the board's button, or let it go, for so long. Raises VirtualBoardError, BoardFault.

        The firmware looks at it when that begins and when it is over.
        """
        if self.chip.button is None:
            raise VirtualBoardError(f"{self.spec.name} has no button")
        self.chip.button.is_down = is_down
        for passed in (0, instructions):
            self.skip(passed)
            self._waits = WAITS
            self.run(until_idle=True)

    def cut_at(self, instructions: int | None) -> None:
        """Cut the power when exactly so many instructions were executed; None: not at all."""
        self._cut_at = instructions

    def cut_during(self, kind: str, index: int = 0) -> None:
        """Cut the power within a flash operation: kind `erase` or `program`, and how many of the
        kind come before."""
        self._cut_during = (kind, index)

    def program(self, image: Image) -> None:
        """Put a program into the flash as a debug probe would: its sectors are erased first."""
        self.image = self.cpu.image = image
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
        found = self.chip.read(address, count)
        if found is None:
            raise VirtualBoardError(f"the chip has no {count} bytes of memory at {address:#x}")
        return found

    def write(self, address: int, data: bytes) -> None:
        """Change memory as nothing on the board could."""
        self.chip.put(address, data)
        self.code_changed()

    def functions(self) -> dict[str, int]:
        """Instructions by function."""
        return self.cpu.counter.by_function()

    def operators(self) -> list[OperatorCount]:
        """Instructions by call that the model's code makes."""
        return self.cpu.counter.operators()

    @property
    def in_rom(self) -> bool:
        """Does the ROM's bootloader run, and wait for a program?"""
        return self.chip.loader is not None or self.chip.ignores_uart

    # --------------------------------------------------------------------------- for peripherals

    @property
    def now(self) -> int:
        """Time in instructions; each reading is later than the one before."""
        self._last_now = max(self.instructions + self._skipped, self._last_now + 1)
        return self._last_now

    def skip(self, instructions: int) -> None:
        """The core waits."""
        self._skipped += max(instructions, 0)

    def spend(self, instructions: int) -> None:
        """The core executes code of the ROM, which may be cut short."""
        if self._cut_at is not None and self._cut_at < self.instructions + instructions:
            self.cpu.instructions = max(self._cut_at, self.instructions)
            raise _PowerCut
        self.cpu.instructions += instructions

    def between(self, action: Callable[[], None]) -> None:
        """Do something while the core stands; then the running instruction's access comes anew."""
        self.cpu.between(action)

    def request_reset(self) -> None:
        """Reset the chip in the place of the next instruction."""
        self._reset_wanted = True
        self.cpu.stop()

    def idle(self) -> None:
        """The firmware waits for a byte, and hears what is played meanwhile."""
        if self.sensor.is_playing:
            self._skip_to(self.sensor.until_next())
            if self._requested:
                self.cpu.stop()
        elif self._waits:
            self._waits -= 1
        elif self._until_idle:
            self._idle = True
            self.cpu.stop()
        else:
            self.link.wait(WAIT_SECONDS)
            if self._requested:
                self.cpu.stop()

    def _skip_to(self, until: int) -> None:
        """Wait until something is played, or a request comes; no longer than the core would."""
        if self.pace_hz and until:
            begun = time.monotonic()
            self.link.wait(until / self.pace_hz)
            until = min(until, int((time.monotonic() - begun) * self.pace_hz))
        self.skip(until)

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
            self.cpu.stop()

    def line(self, depth: int) -> SerialLine:
        """The UART's wire."""
        return SerialLine(self, self.link, depth, self.instructions_per_byte)

    def protect_flash(self, readable: bool) -> None:
        """Whether the core can read the flash, and run from it."""
        self.cpu.protect_flash(readable)

    @property
    def ignores_bus_faults(self) -> bool:
        """Does the core mask faults, and pass over those of the bus?"""
        return self.chip.system.ignores_bus_faults and self.cpu.masks_faults

    def interrupt(self, number: int) -> None:
        """Let the core take an exception before its next instruction."""
        self.cpu.between(lambda: self.cpu.enter(number))

    def code_changed(self) -> None:
        """Something else than the core's own stores changed code. What the core is executing right
        now it executes to the next stop."""
        self.cpu.code_changed()

    # --------------------------------------------------------------------------------------- RAM

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

    # ----------------------------------------------------------------------------------- running

    def _run_a_while(self, until: int | None) -> None:
        if self._reset_wanted:
            self.reset()
        if self.in_rom:
            self._run_rom()
            return
        ends = [end for end in (until, self._cut_at) if end is not None]
        try:
            self.cpu.run(min(ends, default=None))
            if self.cpu.is_trapped:
                self._trap()
        except _PowerCut:
            pass  # `run` sees that its time has come
        finally:
            self.chip.serial.flush()

    def _trap(self) -> None:
        """The core came to a BKPT."""
        cpu = self.cpu
        cpu.is_trapped = False
        try:
            result = self.chip.trap(cpu.pc, cpu.arguments)
        except BoardFault as fault:
            # a function of the ROM is blamed on its caller
            pc = cpu.caller - 2 if self.chip.in_rom_function(cpu.pc) else cpu.pc
            cpu.dead = BoardFault(fault.what, self.image.locate(pc), pc)
            raise cpu.dead from None
        if isinstance(result, int):
            cpu.return_from(result)
        else:
            cpu.begin(result)

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
        self.cpu.reset()
        self.chip.reset_devices()
        self.cpu.begin(start)
