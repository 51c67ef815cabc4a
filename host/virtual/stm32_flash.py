"""The flash controller of the STM32F4 and F7: RM0090, RM0390, RM0385, "Embedded flash memory"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mcutrain_host.virtual.bus import Board, Registers
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming

ACR, KEYR, OPTKEYR, SR, CR, OPTCR, OPTCR1 = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18
KEYS = (0x45670123, 0xCDEF89AB)
WRITE_PROTECTED, ALIGNMENT, PARALLELISM, SEQUENCE, BUSY = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 16
FAILED, ERRORS = 1 << 1, 0xF2
PROGRAM, ERASE, MASS_ERASE, START, LOCK = 1 << 0, 1 << 1, 1 << 2, 1 << 16, 1 << 31


class FlashController(Registers):
    """What the STM32s' have in common: two keys unlock it, and it is busy for a while.

    lock: the bit of CR that says it is locked; wait_mask: of the wait states in ACR. BUSY, DONE and
    FAILED: bits of SR.
    """

    SR: ClassVar = SR
    CR: ClassVar = CR
    BUSY: ClassVar[int]
    DONE: ClassVar[int]
    FAILED: ClassVar[int]
    lock: ClassVar[int]
    wait_mask: ClassVar[int]

    def __init__(
        self, board: Board, memory: FlashMemory, timing: FlashTiming, layout: Mapping[int, int]
    ) -> None:
        super().__init__("the flash controller", layout)
        self.board, self.memory, self.timing = board, memory, timing
        self._keys_given = 0
        self._shut = False
        self._failing: tuple[str, int] | None = None

    def reset(self) -> None:
        """Reset as after power-on: locked."""
        super().reset()
        self._keys_given, self._shut = 0, False

    @property
    def wait_states(self) -> int:
        """What the firmware set."""
        return self.values[ACR] & self.wait_mask

    def load(self, word: int) -> int:
        """BUSY while an operation is under way, and only then how it ended."""
        value = super().load(word)
        if word & 0xFF == self.SR and self.memory.busy(self.board.now):
            return value & ~(self.DONE | self.FAILED) | self.BUSY
        return value

    def fail(self, kind: str, index: int = 0) -> None:
        """Let an operation end with an error, though its bytes read as they should: they may not
        stay so. kind: `erase` or `program`; index: how many of the kind come before."""
        self._failing = (kind, index)

    def program(self, address: int, size: int, value: int) -> bytes:
        """The core writes to the flash's memory: what is there afterwards. Raises BoardFault."""
        raise NotImplementedError

    def read_broken(self, offset: int) -> None:
        """The core reads a word whose checksum is wrong. Raises BoardFault."""
        raise BoardFault("the flash of this model has no checksums")

    def key(self, value: int) -> None:
        """The firmware writes to KEYR."""
        self.check_key(value)
        if self._keys_given == 2:
            self.values[self.CR] &= ~self.lock

    def check_key(self, value: int) -> None:
        """Counts a key that is right. Raises BoardFault for another."""
        expected = KEYS[self._keys_given] if not self._shut and self._keys_given < 2 else None
        if value != expected:
            self._shut = True
            raise BoardFault(
                f"{value:#010x} is not the next key of FLASH_KEYR: the flash stays locked until "
                "the next reset, and the core gets a bus error"
            )
        self._keys_given += 1

    def lock_again(self) -> None:
        """Keys are needed anew."""
        self._keys_given = 0

    def wait(self) -> None:
        """The core's access waits for the operation under way."""
        self.memory.wait(self.board)

    def erase(self, offset: int, count: int, bank_at: int = 0) -> None:
        """Begin to erase a span. bank_at: where the registers of its bank begin."""
        self.memory.change(self.board, offset, bytes([ERASED]) * count, self.timing.erase)
        self.board.code_changed()
        self._started("erase", bank_at)

    def change(self, offset: int, data: bytes, bank_at: int = 0) -> None:
        """Begin to program what is erased."""
        self.memory.change(self.board, offset, data, self.timing.program)
        self._started("program", bank_at)

    def _started(self, kind: str, bank_at: int) -> None:
        self.values[bank_at + self.SR] |= self.DONE
        if self._failing is not None and self._failing[0] == kind:
            left = self._failing[1]
            self._failing = (kind, left - 1) if left else None
            self.values[bank_at + self.SR] |= 0 if left else self.FAILED
        self.board.operation_started(kind)


class Stm32Flash(FlashController):
    """Erases sectors, and writes to erased bytes, once it is unlocked."""

    BUSY, DONE, FAILED = BUSY, 0, FAILED
    lock, wait_mask = LOCK, 0xF

    def __init__(
        self, board: Board, memory: FlashMemory, timing: FlashTiming, has_otp: bool
    ) -> None:
        super().__init__(board, memory, timing, self._layout(has_otp))

    @staticmethod
    def _layout(has_second_options: bool) -> dict[int, int]:
        layout = {ACR: 0, KEYR: 0, OPTKEYR: 0, SR: 0, CR: LOCK, OPTCR: 0x0FFFAAED}
        return layout | ({OPTCR1: 0x00400080} if has_second_options else {})

    def store(self, word: int, value: int) -> None:
        """Keys, the status's errors to clear, and commands."""
        if word == KEYR:
            self.key(value)
        elif word == SR:
            self.values[SR] &= ~(value & (ERRORS | 1))
        elif word == CR:
            self._control(value)
        elif word in (OPTCR, OPTCR1):
            raise BoardFault("the firmware writes the option bytes, which this model leaves alone")
        elif word != OPTKEYR:
            super().store(word, value)

    def program(self, address: int, size: int, value: int) -> bytes:
        """The core writes to the flash's memory: what is there afterwards.

        Without permission nothing changes and the status says why. Raises BoardFault for bytes that
        are not erased: no firmware can want what they hold afterwards.
        """
        offset = address - self.memory.origin
        before = bytes(self.memory.bytes[offset : offset + size])
        after = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        self.wait()
        if not self.values[CR] & PROGRAM or self.values[CR] & LOCK:
            self.values[SR] |= SEQUENCE
        elif address % size:
            self.values[SR] |= ALIGNMENT
        elif size != 1 << (self.values[CR] >> 8 & 3):
            self.values[SR] |= PARALLELISM
        elif before != bytes([ERASED]) * size:
            raise BoardFault(f"the firmware writes to flash at {address:#x}, which is not erased")
        else:
            self.change(offset, after)
            return after
        return before

    def _control(self, value: int) -> None:
        self.wait()
        if self.values[CR] & LOCK:
            return
        if value & LOCK:
            self.lock_again()
        self.values[CR] = value & ~START
        if value & START:
            self._erase(value)

    def _erase(self, value: int) -> None:
        sector = value >> 3 & 0x1F
        if value & MASS_ERASE:
            span = (0, self.memory.size_bytes)
        elif value & ERASE and sector < len(self.memory.sectors) and not value & PROGRAM:
            span = self.memory.sectors[sector]
        else:
            self.values[SR] |= SEQUENCE
            return
        self.erase(*span)
