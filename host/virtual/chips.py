"""Which chip a board's description names."""

from __future__ import annotations

from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual.chip import Carrier, Chip
from mcutrain_host.virtual.cortex_m import CPUID
from mcutrain_host.virtual.errors import VirtualBoardError
from mcutrain_host.virtual.flash_memory import FlashTiming
from mcutrain_host.virtual.mps2 import Mps2Chip
from mcutrain_host.virtual.nrf5_chip import NRF5, Nrf5Chip
from mcutrain_host.virtual.rp2_chip import Rp2040Chip, Rp2350Chip
from mcutrain_host.virtual.stm32_chip import STM32, Stm32Chip


def make_chip(machine: Carrier, spec: BoardDescription, timing: FlashTiming) -> Chip:
    """The chip that the board's description names. Raises VirtualBoardError."""
    name = spec.emulate.unicorn
    if spec.core not in CPUID:
        raise VirtualBoardError(
            f"the board {spec.name} has the core {spec.core!r}; virtual boards have "
            + ", ".join(CPUID)
        )
    if name in STM32:
        return Stm32Chip(machine, spec, timing, STM32[name])
    if name in NRF5:
        return Nrf5Chip(machine, spec, timing, NRF5[name])
    if name == "rp2040":
        return Rp2040Chip(machine, spec)
    if name == "rp2350":
        return Rp2350Chip(machine, spec)
    if name == "mps2":
        return Mps2Chip(machine, spec)
    known = ", ".join([*sorted(STM32), *sorted(NRF5), "rp2040", "rp2350", "mps2"])
    raise VirtualBoardError(
        f"the board {spec.name} has no virtual twin; there are some for {known}"
    )
