"""What the chips of an STM32 family share: which devices they have, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcutrain_host.virtual.bus import Board
from mcutrain_host.virtual.flash_memory import FlashMemory, FlashTiming
from mcutrain_host.virtual.stm32 import ClockLimits, Rcc, RccF4
from mcutrain_host.virtual.stm32_f3 import RccF3, Stm32F3Flash
from mcutrain_host.virtual.stm32_flash import FlashController, Stm32Flash


@dataclass(frozen=True)
class UsartPlace:
    """register, bit: of RCC, which give it its clock. function: of a pin that is its."""

    address: int
    register: int
    bit: int
    function: int


@dataclass(frozen=True)
class Family:
    """controller: of the flash, for a core. rcc_at … gpio_at: addresses; ports follow each other.

    syscfg_bit: of APB2ENR. port_bits: letter of a port → its bit of Rcc.GPIOENR.
    """

    rcc: Callable[[ClockLimits], Rcc]
    controller: Callable[[Board, FlashMemory, FlashTiming, str], FlashController]
    rcc_at: int
    controller_at: int
    syscfg_at: int
    syscfg_bit: int
    gpio_at: int
    port_bits: Mapping[str, int]
    usarts: Mapping[str, UsartPlace]

    def port_at(self, letter: str) -> int:
        """The address of a port."""
        return self.gpio_at + 0x400 * (ord(letter) - ord("A"))


F4 = Family(
    rcc=RccF4,
    controller=lambda board, memory, timing, core: Stm32Flash(
        board, memory, timing, core == "cortex-m7"
    ),
    rcc_at=0x40023800,
    controller_at=0x40023C00,
    syscfg_at=0x40013800,
    syscfg_bit=14,
    gpio_at=0x40020000,
    port_bits={letter: number for number, letter in enumerate("ABCDEFGHIJK")},
    usarts={
        "USART1": UsartPlace(0x40011000, RccF4.APB2ENR, 4, 7),
        "USART2": UsartPlace(0x40004400, RccF4.APB1ENR, 17, 7),
        "USART3": UsartPlace(0x40004800, RccF4.APB1ENR, 18, 7),
        "UART4": UsartPlace(0x40004C00, RccF4.APB1ENR, 19, 8),
        "UART5": UsartPlace(0x40005000, RccF4.APB1ENR, 20, 8),
        "USART6": UsartPlace(0x40011400, RccF4.APB2ENR, 5, 8),
    },
)
"""The STM32F4 and F7."""

F3 = Family(
    rcc=RccF3,
    controller=lambda board, memory, timing, core: Stm32F3Flash(board, memory, timing),
    rcc_at=0x40021000,
    controller_at=0x40022000,
    syscfg_at=0x40010000,
    syscfg_bit=0,
    gpio_at=0x48000000,
    port_bits={"A": 17, "B": 18, "C": 19, "D": 20, "E": 21, "F": 22, "G": 23, "H": 16},
    usarts={
        "USART1": UsartPlace(0x40013800, RccF3.APB2ENR, 14, 7),
        "USART2": UsartPlace(0x40004400, RccF3.APB1ENR, 17, 7),
        "USART3": UsartPlace(0x40004800, RccF3.APB1ENR, 18, 7),
        "UART4": UsartPlace(0x40004C00, RccF3.APB1ENR, 19, 5),
        "UART5": UsartPlace(0x40005000, RccF3.APB1ENR, 20, 5),
    },
)
"""The STM32F303."""
