"""What functions and commands can be asked for: a field is a keyword and a flag.

To add one, add a field to the class that it belongs to; docs/python.md and `--help` then have it.
Nothing large is imported here: the command line reads this file before it knows which command runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import Count, PathLike, Within, number_of_bytes
from mcutrain.errors import ArgumentError
from mcutrain.functions.keywords import (
    BOARD,
    COMPUTER,
    FILES,
    MEMORY,
    NETWORK,
    NOT_WORTH_IT,
    READING,
    Flag,
    Keywords,
)
from mcutrain.target import Target, board_names, target_of

if TYPE_CHECKING:
    from mcutrain.functions.memory_limit import MemoryLimit

Classes = Count | Literal["auto", "keep"]
"""Outputs of a new head; keep: the model's own; auto: by the data."""
MODULES = (
    "adapter:R, lora:R, lora-fa:R, lite:K or gain, joined by commas; behind each ,at=last:K or "
    ",at=LAYER+LAYER for some places only, ,start=random for random directions; behind lite also "
    ",groups=G or ,separable=yes, ,expand=1/4 (1/2, 1) and ,up=nearest (bilinear)"
)
"""Kinds of modules and their options, for help texts."""


def read_gradient_dtype(text: str) -> str:
    """Read --gradient-bits. Raises ArgumentError."""
    if text not in ("8", "16"):
        raise ArgumentError(f"gradients have 8 or 16 bits, not {text}")
    return f"int{text}"


def bytes_flag(text: str) -> Flag:
    """Return a flag that takes a number of bytes. text: its help."""
    return Flag(text, metavar="BYTES", box=MEMORY, kind=str, parse=number_of_bytes, shown=False)


def some_samples(text: str) -> Flag:
    """Return a flag that takes a number of samples, all of them by default. text: its help."""
    return Flag(text, metavar="N", box=READING, shown=False)


def file_flag(text: str, name: str = "", metavar: str = "FILE") -> Flag:
    """Return a flag that takes a path, none by default. text: its help."""
    return Flag(text, name, metavar=metavar, box=FILES, kind=Path, shown=False)


def number(text: str) -> float:
    """Read a number or a fraction of two, such as 0.1/256. Raises ArgumentError."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / (float(below) if slash else 1.0)
    except (ValueError, ZeroDivisionError) as error:
        raise ArgumentError(f"{text!r} is no number and no fraction such as 0.1/256") from error


def numbers(text: str) -> tuple[float, ...]:
    """Read numbers joined by commas. Raises ArgumentError."""
    return tuple(number(part) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Read class names, or a file of them. Raises DataError."""
    from mcutrain.data import read_names

    return tuple(read_names(text))


def boards(incomplete: str) -> list[str]:
    """Return the boards whose names begin so, for a shell that completes --board."""
    return [name for name in board_names() if name.startswith(incomplete)]


Accumulate = Annotated[int, Within(1, 65535), Flag("Samples per update.", box=NETWORK)]


@dataclass(frozen=True, kw_only=True)
class LearningRequest(Keywords):
    """How a training step learns, whatever it trains."""

    loss: Annotated[
        Literal["cross-entropy", "binary-cross-entropy", "mse", "huber", "absolute", "auto"],
        Flag(
            "cross-entropy: classes. binary-cross-entropy: a yes or no for each output, from "
            "rows of 0 and 1. mse: real targets, or without labels the input itself, as an "
            "autoencoder that finds anomalies. huber, absolute: real targets. auto chooses by "
            "model and data, and says what it takes.",
            box=NETWORK,
        ),
    ] = "auto"
    losses: Annotated[
        str,
        Flag(
            "A loss for each of several outputs (--model-output NAME,NAME), and the weight by "
            "which it counts, such as boxes=huber:2,classes=cross-entropy. An output that ends "
            "in a softmax or sigmoids need not be named.",
            metavar="NAME=LOSS[:W],…",
            box=NETWORK,
            shown=False,
        ),
    ] = ""
    class_weights: Annotated[
        str,
        Flag(
            "How much each class counts, such as 1,2.5,1 in the order of the outputs. balanced: "
            "all classes count alike, however many training samples each has. For labels with an "
            "output each: one number, or two, of 0 and 1.",
            metavar="balanced|W,…",
            box=NETWORK,
            shown=False,
        ),
    ] = ""
    label_smoothing: Annotated[
        float,
        Within(0, 1),
        Flag(
            "Share of each label that is spread over all classes, such as 0.1.",
            metavar="S",
            box=NETWORK,
            shown=False,
        ),
    ] = 0.0
    distill: Annotated[
        float,
        Within(0, 1),
        Flag(
            "Keep old classes whose samples are gone: this share of the loss, such as 0.5, is "
            "the distance to what the classifier says as it was flashed.",
            metavar="W",
            box=NETWORK,
            shown=False,
        ),
    ] = 0.0
    accumulate: Accumulate = 1
    gradient_dtype: Annotated[
        Literal["int8", "int16"],
        Flag(
            "Bits of gradients: 8 or 16.",
            "--gradient-bits",
            metavar="8|16",
            box=MEMORY,
            kind=str,
            parse=read_gradient_dtype,
            shown="8",
        ),
    ] = "int8"
    residual_bits: Annotated[
        int | None,
        Flag(
            "0, 2, 4 or 8: fraction bits beside each trained weight; the scheme's own by default.",
            box=MEMORY,
            shown=False,
        ),
    ] = None
    head_residual_bits: Annotated[
        int | None, Flag("The same for the classifier.", box=MEMORY, shown=False)
    ] = None
    bias_bits: Annotated[
        int | None,
        Flag(
            "Bits of each trained bias, 32 or 16, except the classifier's. With 16 the state "
            "holds its difference to the model's. The scheme's own by default.",
            box=MEMORY,
            shown=False,
        ),
    ] = None
    head_rate: Annotated[
        float | None,
        Flag(
            "The learning rate of the classifier is F times that of all else. By default the "
            "scheme's head_rate; if it has none, 8 for a new classifier and 1 for the model's own.",
            metavar="F",
            box=NETWORK,
            shown=False,
        ),
    ] = None
    update_rule: Annotated[
        str | None,
        Flag(
            "How gradients become steps: sgd, momentum (a byte more for each weight) or rmsprop "
            "(4 bytes for each output channel). The scheme's own by default, which is sgd.",
            metavar="RULE",
            box=NETWORK,
            shown=False,
        ),
    ] = None
    gate: Annotated[
        float | None,
        Flag(
            "Learn only from samples with a loss above ALPHA times the mean of late ones, such "
            "as 0.8. The others take a forward pass alone. Off by default.",
            metavar="ALPHA",
            box=NETWORK,
            shown=False,
        ),
    ] = None
    qas: Annotated[
        bool,
        Flag("Leave out quantization-aware scaling (but in the head).", "--no-qas", box=NETWORK),
    ] = True


@dataclass(frozen=True, kw_only=True)
class StreamRequest(LearningRequest):
    """How a training step learns, and what of it computes row by row."""

    stream: Annotated[
        Literal["auto", "least", "off", "max"],
        Flag(
            "Compute the first layers row by row: less memory, more instructions. auto: as far "
            "as the board or --sram asks for it; without these as least, if it saves more than "
            "it costs. least: the smallest arena. off: not at all. max: the smallest front.",
            box=MEMORY,
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class AddedClasses(Keywords):
    """Classes that a classifier learns in addition to its own."""

    added: Annotated[
        Sequence[str],
        Flag(
            "Add this class to those of the classifier, which keep their weights. May be given "
            "again.",
            "--add-class",
            metavar="NAME",
            box=NETWORK,
            shown=False,
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class ProxyCascade(Keywords):
    """Cheaper fronts for easy samples."""

    proxies: Annotated[
        PathLike | None,
        Flag(
            "Cheaper fronts, of which a policy takes one for each sample, as `mcutrain proxies` "
            "wrote them for this model and scheme.",
            metavar="DIR",
            box=NOT_WORTH_IT,
            kind=Path,
            shown=False,
        ),
    ] = None
    drift: Annotated[
        bool,
        Flag(
            "With --proxies: correct the policy while it trains, to cheaper fronts or to dearer "
            "ones. Each 16th sample then takes the whole front, to compare.",
            "--policy-feedback",
            box=NOT_WORTH_IT,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Modules(Keywords):
    """Modules that are put beside frozen layers and trained."""

    pet: Annotated[
        str | None,
        Flag(
            "Parameter-efficient training: put these modules beside frozen layers, as `mcutrain "
            f"augment` does, and train them, besides what --scheme names: {MODULES}. Also bias:K, "
            "bias and linear, which need none, and rate:F: the learning rate of modules is F times "
            "that of all else, 0.1 by default, of gains 1.",
            metavar="KIND[:R]",
            box=NETWORK,
            shown=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ResamplingRequest(Keywords):
    """Input channels that a running program can exchange."""

    swap: Annotated[
        Literal["", "drawn", "fisher"],
        Flag(
            "Let the program train other input channels of partly trained layers while it runs "
            "(`train --resample`): drawn at random, or fisher, those that moved most in their "
            "turns. The weights are kept in flash.",
            "--resample",
            box=NOT_WORTH_IT,
            shown=False,
        ),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class ElasticRequest(ResamplingRequest):
    """What a running program can choose to train."""

    elastic: Annotated[
        bool,
        Flag(
            "Let the program choose while it runs which tensors to train, in a share of a step's "
            "time (`train --elastic SHARE`).",
            box=NOT_WORTH_IT,
        ),
    ] = False


Profile = Annotated[
    PathLike | None,
    Flag(
        "Times of nodes and tensors for --elastic, as `mcutrain profile -o` wrote them, instead "
        "of estimates.",
        metavar="FILE",
        box=NOT_WORTH_IT,
        kind=Path,
        shown=False,
    ),
]
Remember = Annotated[
    int,
    Within(0),
    Flag(
        "Remember N samples for replay, as latents: a random choice of all so far. They lie in "
        "the slots of a board's flash (`train --replay`) or in a library's memory. With --latent "
        "auto unless you name a tensor.",
        metavar="N",
        box=MEMORY,
    ),
]


@dataclass(frozen=True, kw_only=True)
class CutRequest(Keywords):
    """Which part of the network a step is of."""

    part: Annotated[
        Literal["whole", "tail"],
        Flag(
            "tail: leave out the frozen layers before the first trained one. Something else "
            "computes them, and sends what they make of each sample, its latent.",
            box=MEMORY,
        ),
    ] = "whole"
    latent: Annotated[
        str,
        Flag(
            "The tensor that a tail begins with; auto leaves out as much as possible.",
            metavar="auto|TENSOR",
            box=MEMORY,
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class GeneratedRequest(StreamRequest, AddedClasses, Modules, ProxyCascade, ElasticRequest):
    """A training step of `generate`, and which part of it is written."""

    part: Annotated[
        Literal["whole", "tail", "front"],
        Flag(
            "tail: leave out the frozen layers before the first trained one; the program takes "
            "what they make of a sample, its latent. front: write a model file of those layers "
            "alone, for the runtime that computes the latents.",
            box=MEMORY,
        ),
    ] = "whole"
    latent: Annotated[
        str | None,
        Flag(
            "Add functions that begin a step with its latent, and one that computes the latent. "
            "A board's firmware then takes latents over its line, too. With --part: where the "
            "network is cut.",
            metavar="auto|TENSOR",
            box=MEMORY,
            shown=False,
        ),
    ] = None
    remember: Remember = 0
    profile: Profile = None
    timed: Annotated[
        bool,
        Flag(
            "With --board: firmware that times each node, for `mcutrain profile DIR --port P`.",
            box=BOARD,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class SimulatedRequest(StreamRequest, AddedClasses, Modules, ProxyCascade):
    """A training step of `simulate`."""


@dataclass(frozen=True, kw_only=True)
class ProfiledRequest(StreamRequest, AddedClasses, ResamplingRequest):
    """A training step of `profile`, which can leave out any of its tensors."""


@dataclass(frozen=True, kw_only=True)
class PreparedRequest(StreamRequest, AddedClasses, ProxyCascade, ElasticRequest, CutRequest):
    """A training step of `prepare`."""


@dataclass(frozen=True, kw_only=True)
class StepRequest(StreamRequest, AddedClasses, Modules, ProxyCascade, ElasticRequest, CutRequest):
    """A training step of `plan` and `export`."""


Board = Annotated[
    PathLike | Target | None,
    Flag(
        f"The board to generate firmware for: {', '.join(board_names())}, or a folder with a "
        "board.toml.",
        metavar="BOARD",
        kind=str,
        shown=False,
        complete=boards,
    ),
]


Slots = Annotated[
    Literal["on", "off"],
    Flag(
        "`off` gives the program the flash that keeps the trained state. More fits, but what is "
        "learnt does not survive a power cut.",
        box=BOARD,
    ),
]


@dataclass(frozen=True, kw_only=True)
class BoardOptions(Keywords):
    """The board that a step is for."""

    board: Board = None
    slots: Slots = "on"

    @property
    def target(self) -> Target | None:
        """The board, with its slots or without. Raises TargetError."""
        return target_of(self.board, self.slots)


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(BoardOptions):
    """The board that a simulated run is for, or the memory that there is."""

    board: Annotated[
        PathLike | Target | None,
        Flag(
            "The board to train for: its memory decides what is trained, unless --scheme does. "
            "Without it, 256K of arena and state are assumed.",
            metavar="BOARD",
            kind=str,
            shown=False,
            complete=boards,
        ),
    ] = None
    sram: Annotated[
        Count | None,
        bytes_flag(
            "Memory that arena and state may take, such as 64K; with --board, that the whole "
            "firmware may take. It decides what is trained, as --board does."
        ),
    ] = None

    @property
    def memory(self) -> "MemoryLimit":
        """What a step may take. Raises TargetError."""
        from mcutrain.functions.memory_limit import MemoryLimit

        return MemoryLimit.of(self.target, self.sram)


FrontendFlag = Annotated[
    str,
    Flag(
        "Front end that computes features of raw samples, here and on the device: audio, mfcc, "
        "mel, motion, camera, with options such as audio:step_ms=10,frames=98, or a .toml "
        "file. Data are then WAV, FLAC, CSV, Parquet or image files, or int16 arrays. By default "
        "the one in the model's file.",
        metavar="NAME|FILE",
        box=READING,
        shown=False,
    ),
]
Listen = Annotated[
    bool,
    Flag(
        "With --board: firmware that takes raw samples and computes the features of --frontend "
        "itself, to the same bits. A library does so anyway.",
        box=BOARD,
        shown=False,
    ),
]

History = Annotated[
    int,
    Within(0),
    Flag(
        "Frames of features that the program keeps, at least those of a window. It can then take "
        "windows of what was heard before, and a trigger finds what stands out. 0: one window, "
        "no trigger.",
        metavar="N",
        box=BOARD,
        shown=False,
    ),
]


App = Annotated[
    Literal["", "learn"],
    Flag(
        "What a board's firmware does by itself. learn: infers on what it hears, says what it "
        "recognizes, and learns when `mcutrain teach` tells it. With --listen and --history.",
        metavar="learn",
        box=BOARD,
        shown=False,
    ),
]
KeepSamples = Annotated[
    int,
    Within(0, 1 << 24),
    Flag(
        "With --app: raw samples (of a camera rows) that the firmware keeps for `mcutrain teach "
        "--record`, at least those of a window and of the time in which they are read.",
        metavar="N",
        box=BOARD,
        shown=False,
    ),
]
Sensor = Annotated[
    bool,
    Flag(
        "With --app: hear what a virtual board plays, instead of a driver of yours.",
        box=BOARD,
        shown=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class PlanOptions(MemoryOptions):
    """The board that a step is planned for, or the memory that it may take."""

    board: Board = None
    sram: Annotated[
        Count | None,
        bytes_flag("Fail if arena and state need more, such as 256K."),
    ] = None
    frontend: FrontendFlag = ""
    listen: Listen = False
    history: History = 0
    app: App = ""
    keep_samples: KeepSamples = 0


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(Keywords):
    """What a model's step is measured by."""

    board: Annotated[
        PathLike | Target | None,
        Flag(
            "The board whose instructions count, such as nucleo-f446re, or a folder with a "
            "board.toml; by default those of a Cortex-M4 or M7.",
            metavar="BOARD",
            kind=str,
            shown=False,
        ),
    ] = None
    count: Annotated[
        bool,
        Flag("Run the step on the board's emulator, too, and count them.", box=COMPUTER),
    ] = False
    here: Annotated[
        bool,
        Flag(
            "Run the step on this computer, too, and take the nanoseconds of each node.",
            box=COMPUTER,
        ),
    ] = False


Seed = Annotated[int, Within(0, 2**31 - 2), Flag("Seed of all random numbers.")]
HeadStart = Annotated[
    Literal["zeros", "random", "prototypes"],
    Flag(
        "First weights of a new classifier: zeros, random, or prototypes, the mean of each "
        "class's samples, which tell classes apart before the first step.",
        box=NETWORK,
    ),
]
Mean = Annotated[
    Sequence[float] | None,
    Flag(
        "Mean by which pixels / 255 were normalized in the model's training, if its input does "
        "not tell. With --std.",
        metavar="M,…",
        box=READING,
        kind=str,
        parse=numbers,
        shown=False,
    ),
]
Std = Annotated[
    Sequence[float] | None,
    Flag("See --mean.", metavar="S,…", box=READING, kind=str, parse=numbers, shown=False),
]


@dataclass(frozen=True, kw_only=True)
class HeadOptions(Keywords):
    """What a project's classifier begins with, and whether it can learn a class at once."""

    head_start: HeadStart = "zeros"
    imprint: Annotated[
        bool,
        Flag(
            "Add functions that give a class its weights from a few samples, without training; a "
            "board's firmware does it for `mcutrain imprint`. With --data.",
            box=NETWORK,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(Keywords):
    """What a program that calls the project sees."""

    prefix: Annotated[
        str,
        Flag(
            "Prefix of the model's functions, macros and files, so that two models fit into one "
            "program. Without --board.",
            metavar="NAME",
            box=FILES,
        ),
    ] = "mct"
    isa: Annotated[
        str,
        Flag(
            "Instruction set of a library's kernels: portable, dsp (Cortex-M4, M7, M33 and "
            "above), helium, armv6m, or host (a computer or a Raspberry Pi). all: the compiler "
            "chooses by the processor that it compiles for. Without --board.",
            metavar="all|NAME",
            box=FILES,
        ),
    ] = "all"
    package: Annotated[
        str,
        Flag(
            "Write a package for this build system: arduino, cmake, cmsis-pack, esp-idf, "
            "pico-sdk, platformio or zephyr, with manifest, examples and a README. Without "
            "--board.",
            "--as",
            metavar="PACKAGE",
            shown=False,
        ),
    ] = ""
    budgeted: Annotated[
        bool,
        Flag(
            "Add functions that compute a step in pieces: each call returns after about as many "
            "instructions as it is given, and the next goes on, to the same bits. Without "
            "--board.",
            box=FILES,
            shown=False,
        ),
    ] = False
    listen: Listen = False
    history: History = 0
    app: App = ""
    sensor: Sensor = False
    keep_samples: KeepSamples = 0
    class_names: Annotated[
        Sequence[str] | None,
        Flag(
            "Names of the classes, in the order of the outputs: a list, or a text file with one "
            "a line. By default those of the model's file.",
            metavar="A,B,…|FILE",
            box=READING,
            kind=str,
            parse=names,
            shown=False,
        ),
    ] = None
    mean: Mean = None
    std: Std = None
    frontend: FrontendFlag = ""
