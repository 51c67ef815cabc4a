"""Registers of the core itself: DDI 0403 (ARMv7-M), DDI 0419 (ARMv6-M), chapter B3 and C1."""

from __future__ import annotations

from mcutrain_host.virtual.bus import Board, Registers
from mcutrain_host.virtual.errors import BoardFault

SYSTICK_CONTROL, SYSTICK_RELOAD, SYSTICK_VALUE, SYSTICK_CALIBRATION = 0x10, 0x14, 0x18, 0x1C
NVIC_ENABLE = range(0x100, 0x140, 4)
VTOR, AIRCR, CCR = 0xD08, 0xD0C, 0xD14
CCSIDR, CSSELR, CPACR, DEMCR = 0xD80, 0xD84, 0xD88, 0xDFC
CACHE_OPERATIONS = (0xF50, 0xF58, 0xF5C, 0xF60, 0xF64, 0xF68, 0xF6C, 0xF70, 0xF74, 0xF78)
AIRCR_KEY, AIRCR_RESET = 0x05FA, 1 << 2
SYSTICK_ON, SYSTICK_INTERRUPTS, SYSTICK_WRAPPED = 1 << 0, 1 << 1, 1 << 16
TRACE_ON = 1 << 24
FPU_ACCESS = 0xF << 20
IGNORES_BUS_FAULTS = 1 << 8
NMI = 2
"""The number of this exception, and of its vector."""
CPUID = {
    "cortex-m0": 0x410CC200,
    "cortex-m0plus": 0x410CC601,
    "cortex-m3": 0x412FC231,
    "cortex-m33": 0x411FD210,
    "cortex-m4": 0x410FC241,
    "cortex-m7": 0x411FC271,
}
ARMV6M = ("cortex-m0", "cortex-m0plus")
"""Without caches, and without the cycle counter of the trace unit."""
LOCK_KEY = 0xC5ACCE55


def _layout(core: str) -> dict[int, int]:
    layout = dict.fromkeys((*range(0x100, 0x500, 4), *range(0xD00, 0xD40, 4)), 0)
    layout |= dict.fromkeys(range(0xD90, 0xDA4, 4), 0)  # memory protection unit
    layout |= {0x10: 0, 0x14: 0, 0x18: 0, 0x1C: 0, 0xDFC: 0, 0xDF0: 0, 0xDF4: 0, 0xDF8: 0}
    layout |= {0xD00: CPUID[core], 0xD0C: 0xFA050000, 0xD14: 0x200}
    if core not in ARMV6M:
        layout |= {0x004: 0, 0x008: 0, CPACR: 0, 0xF00: 0, 0xF34: 0xC0000000, 0xF38: 0, 0xF3C: 0}
    if core == "cortex-m7":
        layout |= {0xD78: 0x09000003, 0xD7C: 0x8303C003, CCSIDR: 0, CSSELR: 0, CCR: 0x40200}
        layout |= dict.fromkeys((*CACHE_OPERATIONS, *range(0xF90, 0xFAC, 4)), 0)
    return layout


class SystemControl(Registers):
    """0xE000E000: SysTick, NVIC, system control block. No interrupt is ever taken."""

    def __init__(self, board: Board, core: str, data_cache_bytes: int) -> None:
        super().__init__("the system control space", _layout(core))
        self.board = board
        self._has_cache = core == "cortex-m7"
        self._data_cache_bytes = data_cache_bytes
        self._systick_began = 0

    @property
    def fpu_allowed(self) -> bool:
        """Did the firmware switch the floating-point unit on?"""
        return self.values.get(CPACR, 0) & FPU_ACCESS == FPU_ACCESS

    @property
    def vectors(self) -> int:
        """Where the vector table is."""
        return self.values[VTOR]

    @property
    def ignores_bus_faults(self) -> bool:
        """BFHFNMIGN: while faults are masked, those of the bus are passed over."""
        return bool(self.values[CCR] & IGNORES_BUS_FAULTS)

    @property
    def traces(self) -> bool:
        """Is the trace unit, with the cycle counter, on?"""
        return bool(self.values[DEMCR] & TRACE_ON)

    def load(self, word: int) -> int:
        """SysTick counts; the cache says its size."""
        if word == SYSTICK_VALUE:
            return self._systick()
        if word == SYSTICK_CONTROL:
            return self._systick_control()
        if word == CCSIDR and self._has_cache:
            return self._cache_size()
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Reset requests; interrupts are refused."""
        if word == AIRCR:
            if value >> 16 == AIRCR_KEY and value & AIRCR_RESET:
                self.board.request_reset()
            return
        if word in NVIC_ENABLE and value:
            raise BoardFault("the firmware enables an interrupt, and this model has none")
        if word == SYSTICK_CONTROL and value & SYSTICK_INTERRUPTS:
            raise BoardFault("the firmware enables SysTick's interrupt, and this model has none")
        if word in (SYSTICK_CONTROL, SYSTICK_VALUE):
            self._systick_began = self.board.now
        super().store(word, 0 if word == SYSTICK_VALUE else value)

    def _systick(self) -> int:
        reload = self.values[SYSTICK_RELOAD] & 0xFFFFFF
        if not self.values[SYSTICK_CONTROL] & SYSTICK_ON or not reload:
            return 0
        passed = self.board.now - self._systick_began
        return reload - (passed - 1) % (reload + 1) if passed else 0

    def _systick_control(self) -> int:
        reload = self.values[SYSTICK_RELOAD] & 0xFFFFFF
        value = self.values[SYSTICK_CONTROL]
        if value & SYSTICK_ON and self.board.now - self._systick_began > reload:
            self._systick_began = self.board.now
            value |= SYSTICK_WRAPPED
        return value

    def _cache_size(self) -> int:
        """Four ways of 32-byte lines; the instruction cache alike, with two ways."""
        ways = 2 if self.values[CSSELR] & 1 else 4
        sets = self._data_cache_bytes // (32 * ways)
        return 0xF << 28 | (sets - 1) << 13 | (ways - 1) << 3 | 1


class CycleCounter(Registers):
    """0xE0001000: the counter of the Data Watchpoint and Trace unit, which counts instructions."""

    CONTROL, CYCLES, LOCK, LOCK_STATUS = 0x000, 0x004, 0xFB0, 0xFB4

    def __init__(self, board: Board, system: SystemControl, has_lock: bool) -> None:
        super().__init__("the cycle counter", {0x000: 0x40000000, 0x004: 0, 0xFB0: 0, 0xFB4: 0})
        self.board, self.system, self.has_lock = board, system, has_lock
        self._locked, self._running, self._began = has_lock, False, 0

    def reset(self) -> None:
        """Reset as after power-on."""
        super().reset()
        self._locked, self._running, self._began = self.has_lock, False, 0

    def load(self, word: int) -> int:
        """The count."""
        if word == self.CYCLES and self._running and self.system.traces:
            return (self.values[self.CYCLES] + self.board.now - self._began) & 0xFFFFFFFF
        if word == self.LOCK_STATUS:
            return self.has_lock | self._locked << 1
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Start, stop, set; without effect while locked or the trace unit is off."""
        if word == self.LOCK:
            self._locked = self.has_lock and value != LOCK_KEY
        elif not self._locked and self.system.traces:
            count = self.load(self.CYCLES) if word == self.CONTROL else value
            if word == self.CONTROL:
                self._running = bool(value & 1)
                super().store(word, value)
            self.values[self.CYCLES], self._began = count, self.board.now
