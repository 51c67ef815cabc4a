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
            "cross-entropy learns classes; binary-cross-entropy a yes or no of each output, from "
            "rows of 0 and 1; mse to reproduce the input, without labels, as an autoencoder that "
            "finds anomalies, or real targets, as huber and absolute do. auto takes mse for real "
            "targets, and where the model has as many outputs as inputs and the data no label for "
            "each output, and says what else it takes.",
            box=NETWORK,
        ),
    ] = "auto"
    losses: Annotated[
        str,
        Flag(
            "What each of several outputs learns (--model-output NAME,NAME), as "
            "boxes=huber:2,classes=cross-entropy: a loss, and the weight by which it counts. An "
            "output that ends in a softmax or sigmoids need not be named.",
            metavar="NAME=LOSS[:W],…",
            box=NETWORK,
            shown=False,
        ),
    ] = ""
    class_weights: Annotated[
        str,
        Flag(
            "How much each class counts, as 1,2.5,1 in the order of the outputs; balanced: all "
            "alike, by the training labels. Of labels with an output each one number, or two, of "
            "0 and 1.",
            metavar="balanced|W,…",
            box=NETWORK,
            shown=False,
        ),
    ] = ""
    label_smoothing: Annotated[
        float,
        Within(0, 1),
        Flag(
            "The share of each label that all classes get alike, as 0.1.",
            metavar="S",
            box=NETWORK,
            shown=False,
        ),
    ] = 0.0
    distill: Annotated[
        float,
        Within(0, 1),
        Flag(
            "The share of the loss that is the distance to what the classifier said as it was "
            "flashed, as 0.5: keeps old classes where their samples are gone.",
            metavar="W",
            box=NETWORK,
            shown=False,
        ),
    ] = 0.0
    accumulate: Accumulate = 1
    gradient_dtype: Annotated[
        Literal["int8", "int16"],
        Flag(
            "8 or 16: width of gradient tensors.",
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
            "32 or 16: of each trained bias but the classifier's; with 16 the state holds its "
            "difference to the model's. The scheme's own by default.",
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
            "Learn only from samples with a loss above ALPHA times the mean of late ones, such as "
            "0.8; the others take a forward pass alone. Without, from all.",
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
            "Compute the first layers row by row, so that none of their images lies in memory as "
            "a whole, for more instructions. auto: as far as the board or --sram asks for it; "
            "without these as least, unless that costs more of the instructions than it saves of "
            "the bytes. least: as far as it makes the arena smaller. off: not at all. max: to the "
            "least of the front.",
            box=MEMORY,
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class AddedClasses(Keywords):
    """Classes that a classifier learns in addition to its own."""

    added: Annotated[
        Sequence[str],
        Flag(
            "A class that the classifier learns in addition to its own, which keep their weights; "
            "may be given again.",
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
            "With --proxies: correct the policy by what samples taught, to cheaper fronts or to "
            "dearer ones; each 16th sample then takes the whole front, to compare with.",
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
            "Of layers that the scheme trains in part, other input channels can be trained while "
            "it runs, drawn at random or by what their turns were worth; the weights are kept in "
            "flash: `train --resample`.",
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
            "What the scheme trains can be left out while it runs, tensor by tensor, and the "
            "program chooses what helps most in a share of the time: `train --elastic SHARE`.",
            box=NOT_WORTH_IT,
        ),
    ] = False


Profile = Annotated[
    PathLike | None,
    Flag(
        "What nodes and tensors take for --elastic, as `mcutrain profile -o` wrote it, in the "
        "place of the instruction model.",
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
        "A ring of N latents, of all samples so far drawn alike: in the slots of a board's flash, "
        "which are as large as it needs, for `train --replay`, or in a library's memory. With "
        "--latent auto if nothing else is said.",
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
            "tail leaves out what lies before the latent: somebody else computes it and sends "
            "latents for samples.",
            box=MEMORY,
        ),
    ] = "whole"
    latent: Annotated[
        str,
        Flag(
            "Which tensor a tail begins with; auto leaves out as much as can be.",
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
            "tail is only what lies behind the latent, what the layers before the first trained "
            "one make of a sample: it takes latents for samples. front writes a model file of "
            "those layers alone, for whatever runtime makes the latents.",
            box=MEMORY,
        ),
    ] = "whole"
    latent: Annotated[
        str | None,
        Flag(
            "Functions that begin a step with its latent, and one that computes it; a board's "
            "firmware takes latents over its line, too. With --part tail or front, where the "
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
            "With --board: firmware that looks at the clock around each node, for `mcutrain "
            "profile DIR --port P`.",
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
        "`off` gives the flash of the board's slots, which keep the trained state, to the "
        "program: more fits, but what is learnt does not survive a power cut.",
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
            "The board that it is for: what its memory holds is trained, unless --scheme says "
            "what, and --elastic shares out its time. Without it, 256K of arena and state are "
            "assumed.",
            metavar="BOARD",
            kind=str,
            shown=False,
            complete=boards,
        ),
    ] = None
    sram: Annotated[
        Count | None,
        bytes_flag(
            "What arena and state may take, such as 64K; with --board, all that the firmware "
            "takes. It decides as --board does."
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
        "What makes features of raw samples, in integers, here and on the device: audio, mfcc, "
        "mel, motion, camera, with options as audio:step_ms=10,frames=98, or a .toml file with "
        "kind and options. Data are then WAV, FLAC, CSV, Parquet or image files, or int16 arrays. "
        "By default what the model's file says.",
        metavar="NAME|FILE",
        box=READING,
        shown=False,
    ),
]
Listen = Annotated[
    bool,
    Flag(
        "A board's own firmware takes raw samples, too, and computes the features of --frontend "
        "itself, to the same bits; with --board. A library does so anyway.",
        box=BOARD,
        shown=False,
    ),
]

History = Annotated[
    int,
    Within(0),
    Flag(
        "Frames of a front end that a program keeps, those of a window or more: windows are taken "
        "of what was heard before, and a trigger finds what stands out. 0: one window, no trigger.",
        metavar="N",
        box=BOARD,
        shown=False,
    ),
]


App = Annotated[
    Literal["", "learn"],
    Flag(
        "What a board's firmware does of itself: learn infers on what it hears, says what it "
        "recognizes, and learns when `mcutrain teach` tells it; with --listen and --history.",
        metavar="learn",
        box=BOARD,
        shown=False,
    ),
]
KeepSamples = Annotated[
    int,
    Within(0, 1 << 24),
    Flag(
        "Raw samples that the application of --app keeps at least, for `mcutrain teach --record`: "
        "those of a window, and of the time in which they are read; of a camera rows.",
        metavar="N",
        box=BOARD,
        shown=False,
    ),
]
Sensor = Annotated[
    bool,
    Flag(
        "The application of --app hears what a virtual board plays, and no driver of yours.",
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
            "Whose instructions: a microcontroller such as nucleo-f446re, or a folder with a "
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


Seed = Annotated[int, Within(0, 2**31 - 2), Flag("Of everything that is random.")]
HeadStart = Annotated[
    Literal["zeros", "random", "prototypes"],
    Flag(
        "What a new classifier starts from: zeros, random weights, or prototypes, the mean of "
        "each class's samples, which tell them apart before the first step.",
        box=NETWORK,
    ),
]
Mean = Annotated[
    Sequence[float] | None,
    Flag(
        "What pixels / 255 were normalized with in training, if the model's input parameters do "
        "not tell; with --std.",
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
            "Functions that give a class its weights from a few samples of it, without training; "
            "a board's firmware does it for `mcutrain imprint`. With --data.",
            box=NETWORK,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(Keywords):
    """What a program that calls the project sees."""

    prefix: Annotated[
        str,
        Flag(
            "What the model's functions, macros and files begin with, so that two models fit into "
            "one program; without --board.",
            metavar="NAME",
            box=FILES,
        ),
    ] = "mct"
    isa: Annotated[
        str,
        Flag(
            "The instruction set that a library has kernels for: portable, dsp (Cortex-M4, M7, M33 "
            "and above), host (a computer or a Raspberry Pi); all takes those for chips along, and "
            "the compiler chooses by the processor that it compiles for; without --board.",
            metavar="all|NAME",
            box=FILES,
        ),
    ] = "all"
    package: Annotated[
        str,
        Flag(
            "A library as a package: arduino, cmake, cmsis-pack, esp-idf, pico-sdk, platformio or "
            "zephyr, with manifest, examples, a README and names of its own for all that a linker "
            "sees; without --board.",
            "--as",
            metavar="PACKAGE",
            shown=False,
        ),
    ] = ""
    budgeted: Annotated[
        bool,
        Flag(
            "A library with functions that compute a step in pieces: each call returns after about "
            "as many instructions as it is given, and the next goes on, to the same bits; without "
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
            "Names of the classes, in the order of the outputs, for the program and for the data "
            "that it learns, as a list or a text file with one a line; by default those of the "
            "model's file.",
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
