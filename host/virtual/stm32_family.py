"""What the chips of an STM32 family share: which devices they have, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.chip import Carrier
from mcutrain_host.virtual.flash_memory import FlashMemory, FlashTiming
from mcutrain_host.virtual.stm32 import ClockLimits, PowerControl, Pwr, Rcc, RccF4
from mcutrain_host.virtual.stm32_f3 import RccF3, Stm32F3Flash
from mcutrain_host.virtual.stm32_flash import FlashController, Stm32Flash
from mcutrain_host.virtual.stm32_h7 import PwrH7, RccH7, Stm32H7Flash
from mcutrain_host.virtual.stm32_l4 import PwrL4, RccL4, Stm32L4Flash


@dataclass(frozen=True)
class UsartPlace:
    """register, bit: of RCC, which give it its clock. function: of a pin that is its."""

    address: int
    register: int
    bit: int
    function: int


@dataclass(frozen=True)
class ClockGate:
    """Which bit of which register of RCC gives a device its clock."""

    register: int
    bit: int


@dataclass(frozen=True)
class Family:
    """controller: of the flash, for a core. rcc_at … debug_at: addresses; ports follow each other.

    power_gate: None where power control always has a clock. port_bits: letter of a port → its bit
    of Rcc.GPIOENR. apb1: the registers of RCC for devices on the slow bus. word_bytes: of flash
    that have one checksum; 0: there is none. analog: pins are, after a reset.
    """

    rcc: Callable[[ClockLimits], Rcc]
    controller: Callable[[Carrier, FlashMemory, FlashTiming, str], FlashController]
    rcc_at: int
    controller_at: int
    syscfg_at: int
    syscfg_gate: ClockGate
    gpio_at: int
    port_bits: Mapping[str, int]
    usarts: Mapping[str, UsartPlace]
    apb1: tuple[int, ...]
    power_gate: ClockGate | None
    power: Callable[[ClockLimits], PowerControl] = Pwr
    power_at: int = 0x40007000
    debug_at: int = 0xE0042000
    word_bytes: int = 0
    analog: bool = False

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
    syscfg_gate=ClockGate(RccF4.APB2ENR, 14),
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
    apb1=(RccF4.APB1ENR,),
    power_gate=ClockGate(RccF4.APB1ENR, 28),
)
"""The STM32F4 and F7."""

F3 = Family(
    rcc=RccF3,
    controller=lambda board, memory, timing, core: Stm32F3Flash(board, memory, timing),
    rcc_at=0x40021000,
    controller_at=0x40022000,
    syscfg_at=0x40010000,
    syscfg_gate=ClockGate(RccF3.APB2ENR, 0),
    gpio_at=0x48000000,
    port_bits={"A": 17, "B": 18, "C": 19, "D": 20, "E": 21, "F": 22, "G": 23, "H": 16},
    usarts={
        "USART1": UsartPlace(0x40013800, RccF3.APB2ENR, 14, 7),
        "USART2": UsartPlace(0x40004400, RccF3.APB1ENR, 17, 7),
        "USART3": UsartPlace(0x40004800, RccF3.APB1ENR, 18, 7),
        "UART4": UsartPlace(0x40004C00, RccF3.APB1ENR, 19, 5),
        "UART5": UsartPlace(0x40005000, RccF3.APB1ENR, 20, 5),
    },
    apb1=(RccF3.APB1ENR,),
    power_gate=ClockGate(RccF3.APB1ENR, 28),
)
"""The STM32F303."""

L4 = Family(
    rcc=RccL4,
    controller=lambda board, memory, timing, core: Stm32L4Flash(board, memory, timing),
    rcc_at=0x40021000,
    controller_at=0x40022000,
    syscfg_at=0x40010000,
    syscfg_gate=ClockGate(RccL4.APB2ENR, 0),
    gpio_at=0x48000000,
    port_bits={letter: number for number, letter in enumerate("ABCDEFGH")},
    usarts={
        "USART1": UsartPlace(0x40013800, RccL4.APB2ENR, 14, 7),
        "USART2": UsartPlace(0x40004400, RccL4.APB1ENR, 17, 7),
        "USART3": UsartPlace(0x40004800, RccL4.APB1ENR, 18, 7),
        "UART4": UsartPlace(0x40004C00, RccL4.APB1ENR, 19, 8),
        "UART5": UsartPlace(0x40005000, RccL4.APB1ENR, 20, 8),
    },
    apb1=(RccL4.APB1ENR,),
    power_gate=ClockGate(RccL4.APB1ENR, 28),
    power=PwrL4,
    word_bytes=Stm32L4Flash.WORD_BYTES,
    analog=True,
)
"""The STM32L475 and L476."""

H7 = Family(
    rcc=RccH7,
    controller=lambda board, memory, timing, core: Stm32H7Flash(board, memory, timing),
    rcc_at=0x58024400,
    controller_at=0x52002000,
    syscfg_at=0x58000400,
    syscfg_gate=ClockGate(RccH7.APB4ENR, 1),
    gpio_at=0x58020000,
    port_bits={letter: number for number, letter in enumerate("ABCDEFGHIJK")},
    usarts={
        "USART1": UsartPlace(0x40011000, RccH7.APB2ENR, 4, 7),
        "USART2": UsartPlace(0x40004400, RccH7.APB1ENR, 17, 7),
        "USART3": UsartPlace(0x40004800, RccH7.APB1ENR, 18, 7),
        "UART4": UsartPlace(0x40004C00, RccH7.APB1ENR, 19, 8),
        "UART5": UsartPlace(0x40005000, RccH7.APB1ENR, 20, 8),
        "USART6": UsartPlace(0x40011400, RccH7.APB2ENR, 5, 7),
    },
    apb1=(RccH7.APB1ENR,),
    power_gate=None,
    power=PwrH7,
    power_at=0x58024800,
    debug_at=0x5C001000,
    word_bytes=Stm32H7Flash.WORD_BYTES,
    analog=True,
)
"""The STM32H743 and H753."""
