"""Boards as data: what firmware/boards/<board>/board.toml says of CPU, memory, UART and flash."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar

import mcutrain_firmware
from mcutrain_host.dataclass import dataclass
from mcutrain_host.json_values import ValuesError, from_values
from mcutrain_host.manifest import BuildOutput, Emulation, Flashing, Region, Uart
from mcutrain_host.reading import read_text
from mcutrain_host.text import reason

from mcutrain.arguments import PathLike
from mcutrain.errors import TargetError, did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

T = TypeVar("T")

Slots = Literal["on", "off"]
"""Whether the flash of a board's slots keeps the trained state, or holds more of the program."""

FIRMWARE = Path(mcutrain_firmware.__file__).parent
BOARDS = FIRMWARE / "boards"
PLAIN = "plain"
"""The obvious kernel bodies, kernels/<operator>/*.c: what all others are tested against."""
PORTABLE = "portable"
"""Bodies in C for any processor; where an instruction set has none of its own, these stand in."""
PROTOCOL_BYTES = 680
"""sizeof(mct_protocol) where pointers have four bytes; mct_app.c asserts it."""
PROTOCOL_LATENT_BYTES = 688
"""Protocol and store of firmware that takes latents."""
HEARD_BYTES = 4
"""More of firmware that takes raw samples; where it takes latents without a ring, there is room."""
LEARN_BYTES = 84
"""More of firmware that learns lessons: what it decides, and what it has learnt."""
BUTTON_BYTES = 12
"""More where the board has a button."""
PROTOCOL_RING_BYTES = 704
"""Protocol and store of firmware with a ring, without the two bytes for each latent."""
RING_PLACE_BYTES = 2
"""SRAM for each remembered latent: where it lies in the slot."""
CHOICE_STATES = 2
"""Saved states that a choice of what to train compares: MCT_LOG_STATES of mct_log.c less 2."""
LOG_HEADER_BYTES = 32
"""MCT_LOG_BYTES of store/mct_log.c: before each state and latent."""
RAM_ALIGN_BYTES = 8
PAGE_BYTES = 256  # MCT_PAGE_BYTES of mct_board.h; page 0 of a slot is its header
MOST_LATENTS = 65_535
"""The most that a ring remembers."""
KEYS = {
    "name", "title", "core", "isa", "flags", "zig", "sources", "linker_script", "memory", "slots",
    "define", "uart", "flash", "emulate", "bootloader", "gcc", "output", "link",
    "cycles_per_instruction", "cycles_range", "cycles_source", "between_nodes", "package", "costs",
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A board that firmware is generated for.

    isa: which kernel bodies are taken: portable (C for any core), dsp (SMLAD …) or host (SIMD of
        the compiler's CPU).
    driver_bytes: static RAM of start-up and drivers.
    slots: first addresses of the two places that keep the trained state, of slot_bytes each; empty
        where a board cannot keep it.
    erase_bytes: bytes of a slot that are erased at once.
    erasures: how many each bears; None where flash does not wear out.
    slot_regions: the chip's memory that the slots take, in whole sectors where it has some.
    cycles_per_instruction: an assumption for planning; None where time is not planned, as on a
        hosted board. cycles_range: its least and most. cycles_source: what these rest on, in words.
    values: the whole file, for the manifest.
    flash: None for a hosted board (Linux), which has no memory map.
    latent_bytes, remember: of firmware that takes latents; how many its slots hold, see
        `with_latents`. own_flash: the flash of the board's own program, where a ring makes the
        slots larger.
    timing_bytes, imprint_bytes, listening_bytes: SRAM that firmware takes besides to time its
        nodes, to add up a class's features, to take raw samples.
    app: what the firmware does of itself. sensor: whether its raw samples come from the source of a
        virtual board.
    chooses: whether the firmware chooses what it trains, by states that its slots keep.
    uart, flashing, emulation, output: the tables of that name, [flash] and [emulate].
    package: the build system that builds its programs; empty where mcutrain has firmware for it.
    """

    name: str
    title: str
    core: str
    isa: str
    folder: Path
    values: Mapping[str, Any]
    flash: Region | None
    vectors: Region | None
    ram: Region | None
    stack_bytes: int
    driver_bytes: int
    slots: tuple[int, ...]
    slot_bytes: int
    erase_bytes: int
    uart: Uart
    flashing: Flashing
    emulation: Emulation
    output: BuildOutput
    erasures: int | None = None
    cycles_per_instruction: float | None = None
    cycles_range: tuple[float, float] = (0.0, 0.0)
    cycles_source: str = ""
    slot_regions: tuple[Region, ...] = ()
    latent_bytes: int = 0
    remember: int = 0
    own_flash: Region | None = None
    timing_bytes: int = 0
    imprint_bytes: int = 0
    listening_bytes: int = 0
    app: str = ""
    sensor: bool = False
    chooses: bool = False
    package: str = ""

    @property
    def has_firmware(self) -> bool:
        """Whether mcutrain generates its whole program: sources, linker script and drivers."""
        return not self.package

    @property
    def costs(self) -> str:
        """The name in firmware/costs of what the kernels take on its core: that of the isa.

        A board says `costs` where its core takes other instructions for the same bodies.
        """
        return str(self.values.get("costs", self.isa))

    def check_firmware(self) -> None:
        """Raise TargetError if the board has no firmware of its own."""
        if not self.has_firmware:
            raise TargetError(
                f"{self.name} has no firmware of its own: `mcutrain generate --board {self.name}` "
                f"writes a package for {self.package}, which builds and flashes it"
            )

    @property
    def is_hosted(self) -> bool:
        """Whether it runs under an operating system, as a program."""
        return self.ram is None

    @property
    def clock_hz(self) -> int | None:
        """Clock of the core in Hz, as the drivers set it; None if the file does not say it."""
        clock: int | None = self.values.get("define", {}).get("CLOCK_HZ")
        return None if self.is_hosted else clock

    def step_seconds(self, instructions: int) -> float | None:
        """Return how long so many instructions take, roughly; None where clock or rate is unknown.

        mcutrain.cost.time says how roughly.
        """
        if self.clock_hz is None or self.cycles_per_instruction is None:
            return None
        return instructions * self.cycles_per_instruction / self.clock_hz

    @property
    def calls_between(self) -> bool:
        """Whether the network calls the board behind each node: mct_between_nodes."""
        return bool(self.values.get("between_nodes", False))

    @property
    def sources(self) -> tuple[str, ...]:
        """The board's C files, relative to the firmware folder; none without firmware."""
        return tuple(self.values["sources"]) if self.has_firmware else ()

    def path(self, name: str) -> Path:
        """Return where a file of the firmware is; a board's folder may lie elsewhere."""
        own = f"boards/{self.name}/"
        return self.folder / name[len(own) :] if name.startswith(own) else FIRMWARE / name

    def firmware_bytes(self) -> int:
        """Static RAM besides arena and state."""
        parts = (self.timing_bytes, self.imprint_bytes, self.listening_bytes)
        return self.protocol_bytes + self.driver_bytes + sum(parts)

    @property
    def has_button(self) -> bool:
        """Whether it has a button, by which a program that learns is told."""
        return "BUTTON_PIN" in self.values.get("define", {})

    @property
    def protocol_bytes(self) -> int:
        """SRAM of the firmware's protocol and store, with two bytes for each remembered latent."""
        if not self.has_firmware:
            return 0
        heard = HEARD_BYTES if self.listening_bytes else 0
        if self.app:
            heard += LEARN_BYTES + (BUTTON_BYTES if self.has_button else 0)
        if self.remember:
            ring = _align(RING_PLACE_BYTES * self.remember, 4)
            return _align(PROTOCOL_RING_BYTES + heard + ring, RAM_ALIGN_BYTES)
        if self.latent_bytes:
            return _align(PROTOCOL_LATENT_BYTES - HEARD_BYTES + heard, RAM_ALIGN_BYTES)
        return _align(PROTOCOL_BYTES + heard, RAM_ALIGN_BYTES)

    def with_latents(
        self, latent_bytes: int, remember: int, saved_bytes: int, program_bytes: int = 0
    ) -> Target:
        """Return this board with firmware that takes latents, and remembers some in its slots.

        The slots are the board's own if that many fit, else as large as they need. program_bytes:
        that these leave at least. Raises TargetError if the latents do not fit beside the saved
        state.
        """
        board = self
        if remember and not self.is_hosted:
            board = self._with_ring(latent_bytes, remember, saved_bytes, program_bytes)
        return replace(board, latent_bytes=latent_bytes, remember=remember)

    def _with_ring(
        self, latent_bytes: int, remember: int, saved_bytes: int, program_bytes: int
    ) -> Target:
        if not self.slots:
            why = "the program has the flash of its slots" if "slots" in self.values else ""
            why = why or "it has no flash for saved states"
            raise TargetError(f"{self.name} cannot remember latents: {why}")
        entry_bytes, states = _entry_bytes(latent_bytes), 2 + self._carried
        needed = states * _entry_bytes(saved_bytes) + (remember + 1) * entry_bytes
        if remember <= MOST_LATENTS:
            fitting = self._with_larger_slots(program_bytes, needed)
            board = self if self.slot_bytes >= needed else next(fitting, None)
            if board is not None:
                return board
        *_, found = (self, *self._with_larger_slots(program_bytes))
        free = found.slot_bytes - states * _entry_bytes(saved_bytes)
        most = min(free // entry_bytes - 1, MOST_LATENTS)
        has = "can have" if found.own_flash else "has"
        raise TargetError(
            f"a slot of {self.name} {has} {found.slot_bytes:,} bytes, in which {max(most, 0):,} "
            f"latents of {latent_bytes:,} bytes fit beside saved states of {saved_bytes:,}: "
            "remember no more, or another board"
        )

    @property
    def _carried(self) -> int:
        """States that a slot with a ring hands on to the other one when it is full."""
        return CHOICE_STATES if self.chooses else 0

    def with_choice(self, saved_bytes: int, program_bytes: int = 0) -> Target:
        """Return this board with firmware that chooses what it trains, with larger slots if needed.

        program_bytes: that these leave at least. Raises TargetError where no slot keeps a state.
        """
        board = replace(self.with_slots_for(saved_bytes, program_bytes), chooses=True)
        if not board.can_save(saved_bytes):
            raise TargetError(
                f"{self.name} cannot choose what it trains (--elastic), for it compares states "
                f"that its slots keep: {board.why_no_saves(saved_bytes)}; another board, a smaller "
                "scheme, or no --elastic"
            )
        return board

    def with_slots_for(self, saved_bytes: int, program_bytes: int = 0) -> Target:
        """Return this board with slots that are large enough for such a state.

        program_bytes: that these leave at least. The same where there are none.
        """
        if self.is_hosted or not self.slots or self.can_save(saved_bytes):
            return self
        return next(self._with_larger_slots(program_bytes, PAGE_BYTES + saved_bytes), self)

    def _with_larger_slots(self, program_bytes: int, least_bytes: int = 0) -> Iterator[Target]:
        """Yield this board with ever larger slots, which end where the flash ends.

        least_bytes: of the first that is yielded.
        """
        whole = self.without_slots().flash
        assert whole is not None, "a board with slots is a chip"
        bounds, size = self._erase_bounds(whole), self.slot_bytes
        for first in range(len(bounds) - 3, 0, -1):
            flash = Region(whole.origin, bounds[first] - whole.origin)
            second = _middle(bounds, first)
            smaller = min(bounds[second] - bounds[first], bounds[-1] - bounds[second])
            if flash.size_bytes < program_bytes:
                return
            if smaller > size and smaller >= least_bytes:
                size = smaller
                yield self._with_slots(bounds, first, second, flash)

    def _erase_bounds(self, whole: Region) -> list[int]:
        """Return where what is erased at once begins, and where the last of it ends.

        None where slots and program make no whole, or the file does not say which sectors it has.
        """
        own = (*self.slot_regions, *((self.vectors,) if self._has_vectors_in(whole) else ()))
        sizes: tuple[int, ...] = self.flashing.sectors
        if not sizes and "sectors" not in self.values["slots"]:
            sizes = (self.erase_bytes,) * (whole.size_bytes // self.erase_bytes)
        is_whole = all(_is_inside(region, whole) for region in own)
        if not is_whole or sum(sizes) != whole.size_bytes:
            return []
        return [whole.origin, *(whole.origin + end for end in accumulate(sizes))]

    def _has_vectors_in(self, flash: Region) -> bool:
        """Whether the vector table has a region of its own, there and not in another memory."""
        return self.vectors is not None and _is_inside(self.vectors, flash)

    def _with_slots(self, bounds: list[int], first: int, second: int, flash: Region) -> Target:
        """Slots that begin with these units of erasing; the second ends with the last."""
        regions = tuple(
            Region(bounds[i], bounds[j] - bounds[i])
            for i, j in ((first, second), (second, len(bounds) - 1))
        )
        size = min(region.size_bytes for region in regions)
        values = dict(self.values)
        if "sectors" in values["slots"]:  # the driver erases them by number
            numbers = {"SLOT_0_SECTOR": first, "SLOT_0_SECTORS": second - first}
            numbers |= {"SLOT_1_SECTOR": second, "SLOT_1_SECTORS": len(bounds) - 1 - second}
            values["define"] = {**values["define"], **numbers}
        return replace(
            self,
            values=values,
            flash=flash,
            own_flash=self.own_flash or self.flash,
            vectors=None if self._has_vectors_in(flash) else self.vectors,
            slots=tuple(region.origin for region in regions),
            slot_bytes=size,
            erase_bytes=size if self.erase_bytes == self.slot_bytes else self.erase_bytes,
            slot_regions=regions,
        )

    @property
    def ring_flash_bytes(self) -> int:
        """What the program would gain if the ring fitted the board's own slots."""
        if self.own_flash is None or self.flash is None:
            return 0
        return self.own_flash.size_bytes - self.flash.size_bytes

    def slot_bytes_of(self, saved_bytes: int) -> int:
        """Bytes of each slot as the firmware has it; 0 where nothing is saved."""
        if not self.is_hosted:
            return self.slot_bytes if self.can_save(saved_bytes) else 0
        if not self.remember:
            return PAGE_BYTES + _align(saved_bytes, PAGE_BYTES)
        ring = self.remember * _entry_bytes(self.latent_bytes)
        return 2 * ring + 4 * _entry_bytes(saved_bytes) + _entry_bytes(self.latent_bytes)

    def sram_bytes(self, arena_bytes: int, state_bytes: int) -> int:
        """All static RAM and the stack: what the linked ELF occupies."""
        arena = _align(arena_bytes, RAM_ALIGN_BYTES)
        total = self.stack_bytes + arena + state_bytes + self.firmware_bytes()
        return _align(total, RAM_ALIGN_BYTES)

    def step_bytes(self) -> int | None:
        """What the arena and all that stays beside it may take; None where nothing limits it."""
        if self.ram is None:
            return None
        return self.ram.size_bytes - self.sram_bytes(0, 0) - 2 * RAM_ALIGN_BYTES

    def can_save(self, saved_bytes: int) -> bool:
        """Return whether a saved state fits in a slot."""
        if self.is_hosted:
            return True
        return bool(self.slots) and PAGE_BYTES + saved_bytes <= self.slot_bytes

    def why_no_saves(self, saved_bytes: int) -> str:
        """Return what keeps a trained state from outliving a power cut; empty if nothing does.

        Without firmware of mcutrain's own, the program around the package saves states.
        """
        if self.can_save(saved_bytes) or not self.has_firmware:
            return ""
        if self.slots:
            return f"a saved state of {saved_bytes:,} bytes does not fit a slot of {self.name}"
        given = "the program has the flash of the slots" if "slots" in self.values else ""
        return given or f"{self.name} has no slots"

    def without_slots(self) -> Target:
        """Return this board without slots: their flash, where it adjoins, goes to the program.

        It trains, and forgets without power. Raises TargetError for a hosted board, whose state is
        a file, and for one without firmware.
        """
        if self.flash is None:
            raise TargetError(f"{self.name} keeps the trained state in a file: leave the slots on")
        if not self.has_firmware:
            raise TargetError(f"{self.name} has no slots to give up: leave the slots on")
        vectors = () if self.vectors is None else (self.vectors,)
        flash = _joined((self.flash, *vectors, *self.slot_regions), self.flash)
        is_inside = self.vectors is not None and flash.origin <= self.vectors.origin
        return replace(
            self,
            flash=flash,
            vectors=None if is_inside else self.vectors,
            slots=(),
            slot_bytes=0,
            erase_bytes=0,
            erasures=None,
            slot_regions=(),
        )

    @property
    def slots_flash_bytes(self) -> int:
        """What the program would gain without the slots; 0 where it has all, or none is known."""
        if self.flash is None or not self.slots:
            return 0
        given = self.without_slots().flash
        return 0 if given is None else given.size_bytes - self.flash.size_bytes

    def saves(self, saved_bytes: int) -> int | None:
        """Return how many saves of a state the slots outlive; None where that is not known.

        They go round through both slots (store/mct_store.h); a round erases all of them once.
        """
        if self.erasures is None or not self.can_save(saved_bytes):
            return None
        if self.remember:  # the last save of a slot is the first of the other, with the ring
            ring = self.remember * _entry_bytes(self.latent_bytes)
            saves = (self.slot_bytes - ring) // _entry_bytes(saved_bytes) - self._carried
            return 2 * saves * self.erasures
        record_bytes = PAGE_BYTES + _align(saved_bytes, PAGE_BYTES)
        return 2 * (self.slot_bytes // record_bytes) * self.erasures


def _meant(word: str) -> str:
    """Return the end of a sentence about an unknown board: one that a part, or its title, names."""
    titles = {}
    for name in sorted(board_names(), key=len, reverse=True):
        values = tomllib.loads(read_text(BOARDS / name / "board.toml"))
        titles[str(values["title"]).split(" (")[0].lower()] = name
    parts = [name for name in board_names() if len(word) > 2 and word.lower() in name]
    found = titles.get(word.lower()) or min(parts, key=len, default="")
    return f"; did you mean {found!r}?" if found else did_you_mean(word, board_names())


def board_names() -> tuple[str, ...]:
    """The boards that come with mcutrain."""
    return tuple(sorted(path.parent.name for path in BOARDS.glob("*/board.toml")))


def target_of(board: Target | PathLike | None, slots: Slots = "on") -> Target | None:
    """What a function was given: a board, its name or folder, or none. Raises TargetError."""
    if board is None:
        if slots == "off":
            raise TargetError("only a board has slots to give up: give a board, too")
        return None
    target = board if isinstance(board, Target) else load_target(str(board))
    return target if slots == "on" else target.without_slots()


def load_target(board: str | Path) -> Target:
    """A board by its name, or a folder with a board.toml. Raises TargetError."""
    folder = BOARDS / str(board)
    if not (folder / "board.toml").is_file():
        folder = Path(board)
    file = folder / "board.toml"
    try:
        values = tomllib.loads(read_text(file))
    except OSError as error:
        raise TargetError(
            f"there is no board {str(board)!r}: use one of {', '.join(board_names())}, or a folder "
            f"with a board.toml{_meant(str(board))}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise TargetError(f"{file}: {reason(error)}") from error
    unknown = sorted(values.keys() - KEYS)
    if unknown:
        raise TargetError(
            f"{file}: unknown key {unknown[0]!r}; known are {', '.join(sorted(KEYS))}"
        )
    try:
        return _target(folder, values)
    except ValuesError as error:
        raise TargetError(f"{file}: {error}") from error
    except KeyError as error:
        raise TargetError(f"{file}: the key {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise TargetError(f"{file}: {error}") from error


def instruction_sets() -> tuple[str, ...]:
    """Return the instruction sets that have bodies: folders beside an operator's plain bodies."""
    return _instruction_sets(FIRMWARE)


@lru_cache(maxsize=2)
def _instruction_sets(firmware: Path) -> tuple[str, ...]:
    folders = {path.name for path in firmware.glob("kernels/*/*") if path.is_dir()}
    return (PORTABLE, *sorted(folders - {PORTABLE}))


def _target(folder: Path, values: Mapping[str, Any]) -> Target:
    memory = values.get("memory", {})
    slots = values.get("slots", {})
    isa = values["isa"]
    if isa not in instruction_sets():
        raise ValueError(f"isa {isa!r} is none of {', '.join(instruction_sets())}")
    package = _package(values)
    _check_costs(values)
    _check_button(values)
    return Target(
        name=values["name"],
        title=values["title"],
        core=values["core"],
        isa=isa,
        folder=folder,
        values=values,
        flash=_region(memory, "flash"),
        vectors=_region(memory, "vectors"),
        ram=_region(memory, "ram"),
        stack_bytes=int(memory.get("stack_bytes", 0)),
        driver_bytes=int(memory.get("driver_bytes", 0)),
        slots=tuple(int(origin) for origin in slots.get("origins", ())),
        slot_bytes=int(slots.get("bytes", 0)),
        erase_bytes=int(slots.get("erase_bytes", slots.get("bytes", 0))),
        uart=_table(Uart, values, "uart"),
        flashing=_table(Flashing, values, "flash"),
        emulation=_table(Emulation, values, "emulate"),
        output=_table(BuildOutput, values, "output"),
        erasures=int(slots["erasures"]) if "erasures" in slots else None,
        cycles_per_instruction=_rate(values),
        cycles_range=_rates(values),
        cycles_source=str(values.get("cycles_source", "")),
        slot_regions=_slot_regions(slots, _table(Flashing, values, "flash").sectors),
        package=package,
    )


def _check_costs(values: Mapping[str, Any]) -> None:
    """Raise ValueError for costs that nobody has fitted."""
    fitted = sorted(path.stem for path in (FIRMWARE / "costs").glob("*.toml"))
    names = [name for name in fitted if name != "code"]
    if "costs" in values and values["costs"] not in names:
        raise ValueError(f"costs = {values['costs']!r} is none of {', '.join(names)}")


def _check_button(values: Mapping[str, Any]) -> None:
    """Raise ValueError for a button that the driver of its chip cannot read."""
    define = values.get("define", {})
    if "BUTTON_PIN" not in define:
        return
    drivers = {str(one) for one in values.get("sources", ())}
    known: dict[str, Collection[int]] = {"BUTTON_PIN": range(64), "BUTTON_PRESSED": (0, 1)}
    if "chips/stm32/mct_button.c" in drivers:
        known |= {"BUTTON_PIN": range(16), "BUTTON_GPIO": range(2**32)}
    elif drivers & {"chips/nrf5/mct_button.c", "chips/rp2/mct_button.c"}:
        known["BUTTON_PRESSED"] = (0,)
        if "chips/rp2/mct_button.c" in drivers:
            known["BUTTON_PIN"] = range(30)
    for name, numbers in known.items():
        value = define.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value not in numbers:
            said = f"{name} = {value!r}" if name in define else f"BUTTON_PIN without {name}"
            raise ValueError(
                f"{said} under [define]: a button needs {', '.join(known)}; a pin is its number, "
                "and BUTTON_PRESSED its level while the button is down, "
                f"{' or '.join(map(str, known['BUTTON_PRESSED']))} on this chip"
            )


def _package(values: Mapping[str, Any]) -> str:
    """Return the package's name; empty with sources. Raises KeyError if there are neither."""
    if "package" not in values:
        _ = values["sources"]
        return ""
    package = values["package"]
    if not isinstance(package, str) or not package:
        raise ValueError(f"package = {package!r} is not the name of a build system, as esp-idf")
    return package


def _slot_regions(slots: Mapping[str, Any], sizes: tuple[int, ...]) -> tuple[Region, ...]:
    """Regions of both slots: the sectors that the file names, else the bytes that are used.

    sizes: of all sectors of the flash; none if the file does not say.
    """
    regions = []
    sectors = slots.get("sectors", [()] * len(slots.get("origins", ())))
    for origin, own in zip(slots.get("origins", ()), sectors, strict=True):
        if sizes and not set(own) <= set(range(len(sizes))):
            raise ValueError(f"sectors {own} under [slots]: [flash] knows 0 to {len(sizes) - 1}")
        size = sum(sizes[sector] for sector in own) if sizes else 0
        size = size or int(slots["bytes"])
        regions.append(Region(int(origin), size))
    return tuple(regions)


def _is_inside(region: Region, whole: Region) -> bool:
    end, last = region.origin + region.size_bytes, whole.origin + whole.size_bytes
    return whole.origin <= region.origin and end <= last


def _middle(bounds: list[int], first: int) -> int:
    """The bound behind that one which leaves most on its smaller side of the rest; the first of
    equals."""
    half = bisect_left(bounds, (bounds[first] + bounds[-1]) / 2, first + 1, len(bounds) - 1)
    around = (max(half - 1, first + 1), min(half, len(bounds) - 2))
    return max(around, key=lambda i: min(bounds[i] - bounds[first], bounds[-1] - bounds[i]))


def _joined(regions: Iterable[Region], around: Region) -> Region:
    """The largest region without a gap that these make around one of them."""
    begin, end = around.origin, around.origin + around.size_bytes
    ordered = sorted(regions, key=lambda region: region.origin)
    for region in reversed(ordered):
        begin = region.origin if region.origin + region.size_bytes == begin else begin
    for region in ordered:
        end = end + region.size_bytes if region.origin == end else end
    return Region(begin, end - begin)


def _table(kind: type[T], values: Mapping[str, Any], name: str) -> T:
    """A table of the file. Raises ValuesError for what it does not know, or has of another type."""
    return from_values(kind, values.get(name, {}), f"[{name}]")


def _rate(values: Mapping[str, Any]) -> float | None:
    """Raises ValueError for anything but a positive number, and for a clock that is none."""
    clock = values.get("define", {}).get("CLOCK_HZ", 1)
    if isinstance(clock, bool) or not isinstance(clock, int) or clock <= 0:
        raise ValueError(f"CLOCK_HZ = {clock!r} under [define] is not a whole number of hertz")
    rate = values.get("cycles_per_instruction")
    if rate is None:
        return None
    if not _is_positive(rate):
        raise ValueError(f"cycles_per_instruction = {rate!r} is not a positive number, such as 1.5")
    return float(rate)


def _rates(values: Mapping[str, Any]) -> tuple[float, float]:
    """The least and the most; the rate itself where the file does not say.

    Raises ValueError for anything but two numbers around the rate.
    """
    rate = values.get("cycles_per_instruction", 0.0)
    given = values.get("cycles_range", [rate, rate])
    numbers = given if isinstance(given, list) and all(map(_is_positive, given)) else []
    if given != [0.0, 0.0] and (len(numbers) != 2 or not numbers[0] <= rate <= numbers[1]):
        raise ValueError(
            f"cycles_range = {given!r} is not the least and the most that "
            "cycles_per_instruction may be, such as [1.4, 2.0]"
        )
    return float(given[0]), float(given[1])


def _is_positive(number: object) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and 0 < number < math.inf  # type: ignore[operator]


def _region(memory: Mapping[str, Any], name: str) -> Region | None:
    if name not in memory:
        return None
    return Region(int(memory[name]["origin"]), int(memory[name]["bytes"]))


def _entry_bytes(payload_bytes: int) -> int:
    """Return what a state or a latent takes of a slot that is a log."""
    return _align(LOG_HEADER_BYTES + payload_bytes, PAGE_BYTES)


def _align(size_bytes: int, align_bytes: int) -> int:
    return -(-size_bytes // align_bytes) * align_bytes
