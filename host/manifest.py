"""The manifest of a generated project: the one thing that the host tools know of it.

mcutrain.codegen fills these dataclasses, and manifest.json is their content: a field that has its
default is left out.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import ProjectError
from mcutrain_host.files import restore_folder
from mcutrain_host.json_values import ValuesError, from_values, known, parse, table
from mcutrain_host.reading import read_text
from mcutrain_host.saved import recipe_text
from mcutrain_host.state import (
    COUNTERS,
    GATE_SKIPPED,
    LEVEL_SAMPLES,
    SELECTED_TENSORS,
    StateSection,
    StateTable,
)
from mcutrain_host.text import reason

if TYPE_CHECKING:
    from mcutrain_host.protocol import Firmware

FORMAT = 1
FILE = "manifest.json"
CROSS_ENTROPY = "cross-entropy"
MOST_SECTORS = 65536
"""A bootloader's erase command has 16 bits for a sector's number."""


@dataclass(frozen=True, kw_only=True)
class EdgeTensor:
    """The network's input or output: real = scale * (q - zero_point), q int8.

    ids: of an input of token ids, int16 little endian, how many there are; 0 of numbers.
    """

    shape: tuple[int, ...]
    scale: float
    zero_point: int
    ids: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * (2 if self.ids else 1)


@dataclass(frozen=True, kw_only=True)
class LatentTensor(EdgeTensor):
    """What a step may begin with instead of the input."""

    name: str


@dataclass(frozen=True, kw_only=True)
class LabelOutputs:
    """Outputs that say yes or no, each of a label of its own.

    channels: how many there are at each position. threshold: outputs above it say 1.
    """

    channels: int
    threshold: int


@dataclass(frozen=True, kw_only=True)
class SampleOrder:
    """The order of axes in which samples are turned for the network's input.

    file: the model file that users have samples for. shape: of its input, without the batch. axes:
    these axes in the order in which the network's input has them. frontend: what makes samples of
    raw ones, as mcutrain.frontends reads it; empty for nothing.
    """

    file: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    frontend: str = ""


@dataclass(frozen=True, kw_only=True)
class GateWords:
    """That a step learns only from samples with a loss above alpha times the mean of late ones.

    offset: in the state, of that mean (int32, times 2^19) and of the count of skipped samples, for
    readers that do not know the table of the state.
    """

    alpha: float
    offset: int


@dataclass(frozen=True, kw_only=True)
class FrontCost:
    """What a front takes. flash_bytes: besides the others; 0, as instructions, if nobody said."""

    macs: int
    instructions: int = 0
    flash_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class LadderFronts:
    """That a policy chooses one of several fronts for each sample; fronts: the whole one first.

    offset: in the state, of the samples of each (uint32), as GateWords has it. drifts: whether
    something corrects the policy, by two words behind these.
    """

    offset: int
    policy: FrontCost
    fronts: tuple[FrontCost, ...]
    drifts: bool = False


@dataclass(frozen=True, kw_only=True)
class ElasticSelection:
    """What an elastic step selects. tensors: by the bits of the words at `offset` of the state.

    offset: as GateWords has it.
    forward_time, backward_time: of a step in which all are trained, if the program chooses by
    itself which ones are; 0 if not. least_time: of the backward pass for the last layer alone.
    """

    tensors: tuple[str, ...]
    offset: int
    forward_time: int = 0
    backward_time: int = 0
    least_time: int = 0

    @property
    def saves_nothing(self) -> bool:
        """Whether a step takes its whole time whatever is left out."""
        return self.least_time == self.backward_time


@dataclass(frozen=True, kw_only=True)
class TimedNode:
    """A node of a step whose program times itself. estimated: instructions, by the model.

    needed_by: indices of the trained tensors whose update needs it; none: it is of the forward pass
    or the loss. every: steps from one run of it to the next; estimated is of one step.
    """

    name: str
    kernel: str
    estimated: int
    needed_by: tuple[int, ...] = ()
    every: int = 1


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What a program that times its nodes tells, in that order.

    isa: whose instructions were estimated. tensors: that are trained, always: the last layer's of
    them, by index.
    """

    isa: str
    nodes: tuple[TimedNode, ...]
    tensors: tuple[str, ...]
    always: tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """A range of a chip's addresses."""

    origin: int
    bytes: int

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self.bytes


@dataclass(frozen=True, kw_only=True)
class BoardMemory:
    """What was planned, and of what. firmware_bytes: static RAM besides arena and state.

    slots: [origin, bytes] of each place that keeps the state. Empty if it does not fit, or where
    why_no_saves says why; then a trained state does not outlive a power cut. slots_flash_bytes:
    that the program would gain if the slots were given up. remember: latents that they hold,
    besides; ring_flash_bytes: what the program would gain if these fitted the board's own slots. A
    board with an operating system has no regions.
    """

    vectors: Region | None = None
    flash: Region | None = None
    ram: Region | None = None
    stack_bytes: int
    firmware_bytes: int
    arena_bytes: int
    state_bytes: int
    sram_bytes: int
    slots: tuple[tuple[int, ...], ...]
    why_no_saves: str = ""
    slots_flash_bytes: int = 0
    remember: int = 0
    ring_flash_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Uart:
    """board.toml's [uart]. usb: [vendor, product] of adapters on the board. baud 0: not said."""

    name: str = ""
    baud: int = 0
    pins: str = ""
    usb: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Flashing:
    """board.toml's [flash]: by which ways the program gets there, and what they need to know.

    boot: what to do by hand for the bootloader. origin, sector_bytes: of the flash, for an STM32;
    sector_count: so many of one size that sector_bytes says, where it is not 0. baud: of its
    bootloader. drive: what a UF2 drive calls the board. touch_baud: the speed at which the
    firmware's port is opened and closed to start the bootloader; 0 where that does nothing.
    """

    ways: tuple[str, ...] = ()
    pyocd_target: str = ""
    boot: str = ""
    origin: int | None = None
    sector_bytes: tuple[int, ...] = ()
    sector_count: int = 0
    baud: int = 0
    drive: str = ""
    touch_baud: int = 0

    def __post_init__(self) -> None:
        if self.sector_count and len(self.sector_bytes) != 1:
            raise ValueError("sector_count is of sectors of one size: give one in sector_bytes")
        if not 0 <= self.sector_count <= MOST_SECTORS:
            raise ValueError(f"sector_count = {self.sector_count} is not 0 to {MOST_SECTORS}")

    @property
    def sectors(self) -> tuple[int, ...]:
        """Bytes of each sector of the flash."""
        return self.sector_bytes * (self.sector_count or 1)


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """board.toml's [emulate]. unicorn: the virtual board's chip. qemu: its arguments.

    qemu_serial: which of QEMU's serial ports is the board's. qemu_user: QEMU for its programs.
    """

    unicorn: str = ""
    qemu: tuple[str, ...] = ()
    qemu_serial: int | None = None
    qemu_user: str = ""


@dataclass(frozen=True, kw_only=True)
class BuildOutput:
    """board.toml's [output]. uf2_base: where a .uf2 file begins. tools: C that makes it.

    uf2_family: of the chips that take it.
    """

    uf2_base: int | None = None
    uf2_family: int | None = None
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """How the project is compiled, for its Makefile and `mcutrain build`.

    zig: flags for zig instead of `flags`. linker_script: None on a board with an operating system.
    """

    gcc: str
    flags: tuple[str, ...]
    zig: tuple[str, ...]
    common_flags: tuple[str, ...]
    include_dirs: tuple[str, ...]
    sources: tuple[str, ...]
    link: tuple[str, ...]
    linker_script: str | None
    output: str


@dataclass(frozen=True, kw_only=True)
class BoardDescription:
    """The board that a project was generated for. define: macros. bootloader: where it listens.

    sensor: whether its firmware reads a virtual board's source of samples.
    """

    name: str
    title: str
    core: str
    isa: str
    uart: Uart = Uart()
    flash: Flashing = Flashing()
    emulate: Emulation = Emulation()
    define: Mapping[str, Any] = field(default_factory=dict)
    sensor: bool = False
    bootloader: str = ""
    output: BuildOutput
    memory: BoardMemory
    compile: Compilation


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a generated project. board: None for a library.

    model_hash: 16 hexadecimal digits, of model, scheme and layout of the state; a device says it,
    too. positions: the shape of a sample's labels where it has a byte for each of many; else empty.
    label_outputs: None where outputs are of classes. sample_order: None where samples have the
    input's own order of axes. begins_with: for a tail, the model's tensor that it takes as input;
    empty where it takes samples. state: all sections of a saved state, see `table`. shelf_bytes: of
    weights whose trained columns change, behind the state_bytes of a saved state. recipe: how the
    step was made from the model file (mcutrain.pipeline.recipe). start: hexadecimal digits of what
    a state begins with. macs: multiply-accumulates of an inference, front_macs: those of the frozen
    front, which a simulation computes once a sample; 0 if nobody said. files: of the project, this
    one among them, by relative path.
    """

    format: int = 0
    generator: str
    model: str
    model_hash: str
    scheme: str
    classes: int
    samples_per_update: int
    input: EdgeTensor
    output: EdgeTensor
    arena_bytes: int
    arena_lower_bound_bytes: int
    state_bytes: int
    constant_bytes: int
    state: tuple[StateSection, ...]
    parameters: tuple[str, ...]
    loss: str = CROSS_ENTROPY
    positions: tuple[int, ...] = ()
    label_outputs: LabelOutputs | None = None
    sample_order: SampleOrder | None = None
    prefix: str = "mct"
    class_names: tuple[str, ...] = ()
    latent: LatentTensor | None = None
    begins_with: str = ""
    gate: GateWords | None = None
    levels: LadderFronts | None = None
    elastic: ElasticSelection | None = None
    timing: Timing | None = None
    shelf_bytes: int = 0
    recipe: Mapping[str, Any] | None = None
    start: str = ""
    macs: int = 0
    front_macs: int = 0
    board: BoardDescription | None = None
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        int(self.model_hash, 16)
        end = max((section.end for section in self.state), default=0)
        if end > self.state_bytes + self.shelf_bytes:
            raise ValueError(f"a section of the state ends at byte {end}, behind the state")

    def recipe_text(self, class_names: Sequence[str] = ()) -> str:
        """Return how the step was made, as saved states have it; "" if that is not known.

        class_names: of the outputs, where the project does not name them itself.
        """
        if self.recipe is None:
            return ""
        names = list(self.class_names or class_names)
        return recipe_text({**self.recipe, **({"class_names": names} if names else {})})

    @property
    def table(self) -> StateTable:
        """Where everything lies in the state."""
        says_kinds = any(section.kind for section in self.state)
        return StateTable(self.state if says_kinds else (*self.state, *self._earlier_words()))

    def _earlier_words(self) -> Iterator[StateSection]:
        """What the table of an earlier version leaves out, by what its manifest says elsewhere."""
        yield _words(COUNTERS, "uint32", 3, 0)
        if self.levels is not None:
            offset, count = self.levels.offset, len(self.levels.fronts)
            yield _words(LEVEL_SAMPLES, "uint32", count, offset)
            if self.levels.drifts:
                yield _words("level_drift", "int32", 2, offset + 4 * count)
        if self.elastic is not None:
            count = -(-len(self.elastic.tensors) // 32)
            yield _words(SELECTED_TENSORS, "uint32", count, self.elastic.offset)
        if self.gate is not None:
            yield _words(GATE_SKIPPED, "uint32", 1, self.gate.offset + 4)

    @property
    def has_labels(self) -> bool:
        """Whether training needs labels; otherwise the outputs are to be the inputs."""
        return self.loss == CROSS_ENTROPY

    def to_json(self) -> str:
        """The text of manifest.json."""
        return json.dumps(table(self), indent=2) + "\n"

    @staticmethod
    def of_folder(folder: Path, flags: str) -> Manifest:
        """Read the manifest of a generated project. flags: of `mcutrain generate`, for a sentence.

        Raises ProjectError.
        """
        restore_folder(folder)
        try:
            return Manifest.read(folder / FILE)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ProjectError(
                f"{folder} is no generated project: it has no {FILE}; "
                f"`mcutrain generate MODEL {flags} -o DIR` makes one"
            ) from error
        except OSError as error:
            raise ProjectError(
                f"cannot read {folder / FILE}: {reason(error)}; generate the project anew"
            ) from error

    @staticmethod
    def read(path: Path) -> Manifest:
        """From manifest.json. Raises OSError, and ProjectError for what is no manifest."""
        try:
            values = parse(read_text(path), str(path))
            if not isinstance(values, dict) or values.get("format") != FORMAT:
                raise ProjectError(f"{path} is of another version of mcutrain; generate it anew")
            return from_values(Manifest, known(Manifest, values), str(path))
        except (ValuesError, UnicodeDecodeError) as error:
            why = reason(error)
            raise ProjectError(f"{path} is damaged: {why}; generate the project anew") from error


def _words(kind: str, dtype: str, count: int, offset: int) -> StateSection:
    return StateSection(name=kind, kind=kind, dtype=dtype, shape=(count,), offset=offset)


@dataclass(frozen=True)
class BoardProject:
    """A folder that `mcutrain generate --board` wrote, and what its manifest says."""

    folder: Path
    manifest: Manifest
    board: BoardDescription

    @staticmethod
    def read(folder: Path) -> BoardProject:
        """Read DIR/manifest.json. Raises ProjectError."""
        manifest = Manifest.of_folder(folder, "--board B")
        if manifest.board is None:
            raise ProjectError(
                f"{folder} is a library, without firmware for a board: `mcutrain generate MODEL "
                "--board B -o DIR` makes firmware; a package is built and flashed as its README.md "
                "says"
            )
        return BoardProject(folder, manifest, manifest.board)

    @property
    def model_hash(self) -> int:
        """What the device says too: of model, scheme and layout of the state."""
        return int(self.manifest.model_hash, 16)

    @property
    def listens(self) -> bool:
        """Whether its firmware takes raw samples."""
        return any(Path(name).name == "mct_hear_commands.h" for name in self.manifest.files)

    @property
    def firmware(self) -> Firmware:
        """What a board with this firmware says of itself."""
        from mcutrain_host.protocol import Firmware  # who only plans has no board

        manifest = self.manifest
        return Firmware(
            self.model_hash,
            manifest.input.size_bytes,
            manifest.output.size_bytes,
            manifest.classes,
            manifest.samples_per_update,
            manifest.state_bytes,
        )

    @property
    def elf(self) -> Path:
        """The linked firmware; it is there after `mcutrain build`."""
        return self.folder / "build" / self.board.compile.output

    def built_elf(self) -> Path:
        """Path of the built ELF file. Raises ProjectError if it was not built yet."""
        if not self.elf.is_file():
            folder = shlex.quote(str(self.folder))
            raise ProjectError(f"{self.elf} is not there: run `mcutrain build {folder}` first")
        return self.elf
