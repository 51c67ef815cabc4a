"""Peripherals of the nRF51 and nRF52: nRF51 Series Reference Manual 3.0, nRF52840 PS 1.7."""

from __future__ import annotations

from collections.abc import Callable

from mcutrain_host.virtual.bus import Board, Button, Registers
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming
from mcutrain_host.virtual.serial_line import Wire

BAUD_TOLERANCE = 0.03
"""A receiver that samples in the middle of bits bears about that much."""
UNIT_HZ = 16_000_000
"""Clock of the peripherals."""
WORD = 4
WRITES_OF_A_WORD = 2
"""Writes that a word of flash bears between two erasures: nRF52840 PS, "NVMC"."""


class Power(Registers):
    """POWER and CLOCK, which share an address. The crystal runs as soon as it is asked to."""

    START, STARTED, STATUS = 0x000, 0x100, 0x40C
    GPREGRET, PROTECT = 0x51C, 0x558
    KEPT = (0x51C, 0x520)
    """What a reset leaves as it is."""

    def __init__(self) -> None:
        words = (*range(0, 0x20, 4), *range(0x100, 0x11C, 4), *range(0x300, 0x310, 4))
        more = (0x400, 0x408, 0x40C, 0x414, 0x418, 0x41C, 0x428, 0x438, 0x500, 0x510, 0x51C, 0x520)
        clock = (0x524, 0x538, 0x550, 0x554, 0x558, 0x55C, 0x578, 0x640)
        super().__init__("POWER and CLOCK", dict.fromkeys((*words, *more, *clock), 0))
        self.crystal_runs = False

    def reset(self) -> None:
        """Reset all but two registers, which keep their bytes."""
        kept = {word: self.values[word] for word in self.KEPT}
        super().reset()
        self.values |= kept
        self.crystal_runs = False

    def store(self, word: int, value: int) -> None:
        """Tasks act, and read as 0."""
        if word == self.START:
            if value & 1:
                self.crystal_runs = True
                self.values[self.STARTED] = 1
                self.values[self.STATUS] = 1 << 16 | 1
        else:
            super().store(word, value)


class PinRegisters(Registers):
    """A port of 32 pins; nothing is connected besides the UART and maybe a button."""

    OUT, OUTSET, OUTCLR, IN = 0x504, 0x508, 0x50C, 0x510
    DIR, DIRSET, DIRCLR, CNF = 0x514, 0x518, 0x51C, 0x700
    PULLED_UP = 3 << 2

    def __init__(self, name: str) -> None:
        cnf = dict.fromkeys(range(self.CNF, self.CNF + 0x80, 4), 2)
        super().__init__(name, dict.fromkeys(range(0x504, 0x528, 4), 0) | cnf)
        self.button: Button | None = None

    def load(self, word: int) -> int:
        """Inputs read 0, but for the button's."""
        if word != self.IN or self.button is None:
            return super().load(word)
        pin = self.button.pin % 32
        cnf = self.values[self.CNF + 4 * pin]
        if cnf & 3:
            return 0  # an output, or not connected
        return self.button.reads({1: 0, 3: 1}.get(cnf >> 2 & 3)) << pin

    def store(self, word: int, value: int) -> None:
        """Some registers set and clear bits of others."""
        sets = {self.OUTSET: self.OUT, self.DIRSET: self.DIR}
        clears = {self.OUTCLR: self.OUT, self.DIRCLR: self.DIR}
        if word in sets:
            self.values[sets[word]] |= value
        elif word in clears:
            self.values[clears[word]] &= ~value
        else:
            super().store(word, value)

    def sends(self, pin: int) -> bool:
        """Is it an output that is high while nothing is sent?"""
        return bool(self.values[self.CNF + 4 * pin] & 1 and self.values[self.OUT] >> pin & 1)

    def receives(self, pin: int) -> bool:
        """Is it an input, connected and pulled up?"""
        return self.values[self.CNF + 4 * pin] & 0xF == self.PULLED_UP


class NrfGpio:
    """All ports: the second one's registers lie 0x300 behind the first one's."""

    name = "GPIO"
    APART, SECOND = 0x300, 0x800

    def __init__(self, count: int) -> None:
        self.ports = [PinRegisters(f"GPIO P{i}") for i in range(count)]

    def reset(self) -> None:
        """Reset as after power-on."""
        for port in self.ports:
            port.reset()

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads."""
        port, inner = self._find(offset)
        return port.read(inner, size)

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes."""
        port, inner = self._find(offset)
        port.write(inner, size, value)

    def port_of(self, pin: int) -> PinRegisters | None:
        """The port of a pin, whose number is 32 * port + pin; None if the chip has none."""
        return self.ports[pin // 32] if pin // 32 < len(self.ports) else None

    def _find(self, offset: int) -> tuple[PinRegisters, int]:
        if offset < self.SECOND or len(self.ports) == 1:
            return self.ports[0], offset
        return self.ports[1], offset - self.APART


class NrfUart(Registers):
    """The UART without DMA: six bytes behind the one that can be read.

    why_not: says why no bytes pass, asked when it is switched on, given the two pins that it has.
    """

    STARTRX, STOPRX, STARTTX, STOPTX = 0x000, 0x004, 0x008, 0x00C
    RXDRDY, TXDRDY, ERROR = 0x108, 0x11C, 0x124
    ERRORSRC, ENABLE, PSELTXD, PSELRXD, RXD, TXD = 0x480, 0x500, 0x50C, 0x514, 0x518, 0x51C
    BAUDRATE, CONFIG = 0x524, 0x56C
    ON, OVERRUN = 4, 1

    def __init__(self, wire: Wire, baud: int, why_not: Callable[[int, int], str | None]) -> None:
        words = (*range(0, 0x20, 4), 0x100, 0x104, 0x108, 0x11C, 0x124, 0x144, 0x200, 0x304, 0x308)
        super().__init__("UART0", dict.fromkeys((*words, 0x480, 0x500, 0x518, 0x51C), 0))
        self.layout |= dict.fromkeys((0x508, 0x50C, 0x510, 0x514), 0xFFFFFFFF)
        self.layout |= {self.BAUDRATE: 0x04000000, self.CONFIG: 0}
        self.values = dict(self.layout)
        self.wire, self.baud, self.why_not = wire, baud, why_not
        self._hears = self._speaks = False
        self._overruns_seen = wire.overruns

    def reset(self) -> None:
        """Reset as after power-on."""
        super().reset()
        self._hears = self._speaks = False

    def load(self, word: int) -> int:
        """The event of a byte is there as long as one waits and nobody cleared it since it came."""
        if word == self.RXDRDY:
            self._look()
        if word == self.RXD:
            return self.wire.take() if self._hears else 0
        if word == self.ERRORSRC and self.wire.overruns != self._overruns_seen:
            return self.OVERRUN
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Tasks, data and settings."""
        if word in (self.STARTRX, self.STARTTX):
            if value & 1:
                self._start(word)
        elif word in (self.STOPRX, self.STOPTX):
            self._hears &= word != self.STOPRX
            self._speaks &= word != self.STOPTX
        elif word == self.TXD:
            self._send(value & 0xFF)
        elif word == self.ERRORSRC:
            self._overruns_seen = self.wire.overruns
        elif word not in (self.RXD,):
            super().store(word, value)

    def _look(self) -> None:
        """A byte that came, or that moved up behind one that was read, sets the event."""
        if self._hears and not self.values[self.RXDRDY] and self.wire.ready():
            self.values[self.RXDRDY] = 1

    def _send(self, byte: int) -> None:
        if not self._speaks:
            return
        self.wire.send(byte)
        self.values[self.TXDRDY] = 1

    def _start(self, task: int) -> None:
        """What is set up must be right."""
        if self.values[self.ENABLE] != self.ON:
            raise BoardFault("the firmware starts UART0, whose ENABLE is not 4")
        baud = self.values[self.BAUDRATE] * UNIT_HZ / (1 << 32)
        if abs(baud / self.baud - 1) > BAUD_TOLERANCE:
            raise BoardFault(
                f"the UART is set to {baud:.0f} baud and the board promises {self.baud}"
            )
        if self.values[self.CONFIG]:
            raise BoardFault("UART0 is set to parity, two stop bits or flow control")
        reason = self.why_not(self.values[self.PSELTXD], self.values[self.PSELRXD])
        if reason:
            raise BoardFault(reason)
        if task == self.STARTRX:
            self._hears = True
        else:
            self._speaks = True


class Nvmc(Registers):
    """The flash's controller: words are written and pages are erased when CONFIG allows it."""

    READY, READY_NEXT, CONFIG, ERASE_PAGE, ERASE_ALL = 0x400, 0x408, 0x504, 0x508, 0x50C
    READ, WRITE, ERASE = 0, 1, 2

    def __init__(
        self, board: Board, memory: FlashMemory, timing: FlashTiming, has_cache: bool
    ) -> None:
        words = (self.READY, self.CONFIG, self.ERASE_PAGE, self.ERASE_ALL, 0x510, 0x514)
        cache = (self.READY_NEXT, 0x518, 0x51C, 0x540, 0x548, 0x54C) if has_cache else ()
        super().__init__("the flash controller", dict.fromkeys((*words, *cache), 0))
        self.board, self.memory, self.timing = board, memory, timing
        self._writes: dict[int, int] = {}
        """Offset of a word → its writes since its page was erased."""

    def load(self, word: int) -> int:
        """Ready while nothing is under way."""
        if word in (self.READY, self.READY_NEXT):
            return int(not self.memory.busy(self.board.now))
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Commands come only when the one before is done."""
        self.memory.wait(self.board)
        if word in (self.READY, self.READY_NEXT):
            return
        if word == self.ERASE_PAGE:
            self._erase(value)
        elif word in (self.ERASE_ALL, 0x510, 0x514):
            raise BoardFault("the firmware erases all of the flash or UICR, and itself with it")
        else:
            super().store(word, value)

    def program(self, address: int, size: int, value: int) -> bytes:
        """The core writes to the flash's memory: what is there then. Bits are only cleared.

        Raises BoardFault for what the chip ignores or ends in a bus error.
        """
        self.memory.wait(self.board)
        if size != WORD or address % WORD:
            raise BoardFault(
                f"the firmware writes {size} bytes to flash at {address:#x}, which takes words"
            )
        if self.values[self.CONFIG] != self.WRITE:
            raise BoardFault(f"the firmware writes to flash at {address:#x}, which is not open")
        offset = address - self.memory.origin
        self._writes[offset] = self._writes.get(offset, 0) + 1
        if self._writes[offset] > WRITES_OF_A_WORD:
            raise BoardFault(
                f"the firmware writes to flash at {address:#x} for the third time since its page "
                "was erased; the data sheet allows two"
            )
        before = int.from_bytes(self.memory.bytes[offset : offset + WORD], "little")
        if before & value != value:
            raise BoardFault(f"the firmware writes to flash at {address:#x}, which is not erased")
        after = (before & value).to_bytes(WORD, "little")
        self.memory.change(self.board, offset, after, self.timing.program)
        self.board.operation_started("program")
        return after

    def _erase(self, address: int) -> None:
        if self.values[self.CONFIG] != self.ERASE:
            raise BoardFault(f"the firmware erases flash at {address:#x}, and CONFIG forbids it")
        place = address - self.memory.origin
        for offset, count in self.memory.sectors:
            if offset == place:
                erased = bytes([ERASED]) * count
                self.memory.change(self.board, offset, erased, self.timing.erase)
                self._writes = {
                    at: n for at, n in self._writes.items() if not offset <= at < offset + count
                }
                self.board.operation_started("erase")
                self.board.code_changed()
                return
        raise BoardFault(f"the firmware erases flash at {address:#x}, where no page begins")


class NrfTimer(Registers):
    """TIMER0 as a counter of 16 MHz, which is the nRF51's core clock: it counts instructions."""

    START, STOP, CLEAR, CAPTURE, CC, BITMODE = 0x000, 0x004, 0x00C, 0x040, 0x540, 0x508
    BITS = (16, 8, 24, 32)

    def __init__(self, board: Board) -> None:
        words = (*range(0, 0x14, 4), *range(0x040, 0x050, 4), *range(0x140, 0x150, 4))
        more = (0x200, 0x304, 0x308, 0x504, 0x508, 0x510, *range(0x540, 0x550, 4))
        super().__init__("TIMER0", {**dict.fromkeys((*words, *more), 0), 0x510: 4})
        self.board = board
        self._began: int | None = None

    def reset(self) -> None:
        """Reset as after power-on."""
        super().reset()
        self._began = None

    def store(self, word: int, value: int) -> None:
        """Tasks."""
        if word == self.START:
            self._began = self.board.now
        elif word == self.STOP:
            self._began = None
        elif word in range(self.CAPTURE, self.CAPTURE + 0x10, 4):
            mask = (1 << self.BITS[self.values[self.BITMODE] & 3]) - 1
            passed = 0 if self._began is None else self.board.now - self._began
            self.values[self.CC + word - self.CAPTURE] = passed >> self.values[0x510] & mask
        else:
            super().store(word, value)
