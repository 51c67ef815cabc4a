"""Flags that several commands share, and how their values are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcutrain.cli.output import say
from mcutrain.cli.panels import MEMORY
from mcutrain.cli.training import placing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcutrain import quant
    from mcutrain.data import Split
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import StepOptions, TrainingStep
    from mcutrain.pipeline.recipe import PutModules, Recipe
    from mcutrain.sparse import UpdateScheme
    from mcutrain.target import Target

UNITS = {"": 1, "K": 1024, "KIB": 1024, "KB": 1000, "M": 1024**2, "MIB": 1024**2, "MB": 1000**2}
MODULES = (
    "adapter:R, lora:R, lora-fa:R, lite:K or gain, joined by commas; behind each ,at=last:K or "
    ",at=LAYER+LAYER for some places only, ,start=random for random directions; behind lite also "
    ",groups=G or ,separable=yes, ,expand=1/4 (1/2, 1) and ,up=nearest (bilinear)"
)
"""Of help texts: kinds of modules, and their options."""
KEEP = "keep"
AUTO = "auto"


def parse_number(text: str) -> float:
    """A number or a fraction of two, such as 0.1/256."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / (float(below) if slash else 1.0)
    except (ValueError, ZeroDivisionError) as error:
        raise typer.BadParameter(
            f"{text!r} is no number and no fraction such as 0.1/256"
        ) from error


def parse_rate(text: str) -> float | None:
    """A number or a fraction of two; None for `auto`."""
    return None if text == AUTO else parse_number(text)


def parse_bytes(text: str) -> int:
    """256K is 262144; K and M are 1024 and 1024², kB and MB 1000 and 1000²."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise typer.BadParameter(f"{text!r} is no number of bytes such as 262144, 256K or 250kB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def parse_numbers(text: str) -> str:
    """Numbers joined by commas, checked here and kept as text."""
    for part in text.split(","):
        parse_number(part)
    return text


def parse_classes(text: str) -> str:
    """A number of classes, or `keep`."""
    if text != KEEP and not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a number of classes nor {KEEP!r}")
    return text


def parse_auto_classes(text: str) -> str:
    """The same, or `auto`."""
    return text if text == AUTO else parse_classes(text)


def _schemes(incomplete: str) -> list[str]:
    """For a shell that completes --scheme."""
    from mcutrain.sparse.scheme import WORDS, shipped_schemes

    names = (AUTO, *WORDS, *shipped_schemes())
    return [name for name in names if name.startswith(incomplete)]


def boards(incomplete: str) -> list[str]:
    """For a shell that completes --board."""
    from mcutrain.target import board_names

    return [name for name in board_names() if name.startswith(incomplete)]


Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="An int8 .tflite or QDQ .onnx file.", show_default=False),
]
ModelOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file to write; its name, .tflite or .onnx, tells the format.",
        show_default=False,
    ),
]
WHAT = (
    "head, last:K, bias:K, linear-bias:K, full, LAYER:SHARE,… (layers as `mcutrain info` counts "
    "them), modules, "
    "the name of a shipped scheme, a .toml file, or a checkpoint or state of `simulate`, for what "
    "it trained"
)
"""Of help texts: what can be trained."""
Scheme = Annotated[
    str,
    typer.Option(
        help=f"What to train: {WHAT}.",
        autocompletion=_schemes,
    ),
]
AutoScheme = Annotated[
    str | None,
    typer.Option(
        help="What to train: auto (by default): all that fits the board, or what gradients of "
        f"training samples say helps most of what fits; {WHAT}.",
        autocompletion=_schemes,
        show_default=False,
    ),
]
PlannedScheme = Annotated[
    str | None,
    typer.Option(
        help="What to train: auto (by default with --data), as `simulate` chooses it by training "
        f"samples; else by default head; {WHAT}.",
        autocompletion=_schemes,
        show_default=False,
    ),
]
Pet = Annotated[
    str | None,
    typer.Option(
        "--pet",
        metavar="KIND[:R]",
        help="Parameter-efficient training: put these modules beside frozen layers, as `mcutrain "
        f"augment` does, and train them, besides what --scheme names: {MODULES}. Also bias:K, bias "
        "and linear, which need none, and rate:F: the learning rate of modules is F times that of "
        "all else, 0.1 by default, of gains 1.",
        show_default=False,
    ),
]
Classes = Annotated[
    str,
    typer.Option(
        parser=parse_classes,
        metavar="N|keep",
        help="A new, untrained classifier with so many outputs; `keep` keeps the model's own.",
    ),
]
AutoClasses = Annotated[
    str,
    typer.Option(
        parser=parse_auto_classes,
        metavar="N|keep|auto",
        help="A new, untrained classifier with N outputs; `keep` keeps the model's own; `auto` "
        "keeps it if the data has as many classes.",
    ),
]
Loss = Annotated[
    Literal["cross-entropy", "mse", "auto"],
    typer.Option(
        help="cross-entropy learns classes; mse learns to reproduce the input, without labels, as "
        "an autoencoder that finds anomalies; auto takes mse where the model has as many outputs "
        "as inputs and the data no label for each output."
    ),
]
AddClass = Annotated[
    list[str] | None,
    typer.Option(
        "--add-class",
        metavar="NAME",
        help="A class that the classifier learns in addition to its own, which keep their weights; "
        "may be given again.",
        show_default=False,
    ),
]
Accumulate = Annotated[int, typer.Option(min=1, max=65535, help="Samples per update.")]
Gate = Annotated[
    float | None,
    typer.Option(
        metavar="ALPHA",
        help="Learn only from samples with a loss above ALPHA times the mean of late ones, such as "
        "0.8; the others take a forward pass alone. Without, from all.",
        show_default=False,
    ),
]
IsElastic = Annotated[
    bool,
    typer.Option(
        "--elastic",
        help="What the scheme trains can be left out while it runs, tensor by tensor, and the "
        "program chooses what helps most in a share of the time: `train --elastic SHARE`.",
    ),
]
Profile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What nodes and tensors take for --elastic, as `mcutrain profile -o` wrote it, in the "
        "place of the instruction model.",
        show_default=False,
    ),
]
IsSwap = Annotated[
    Literal["drawn", "fisher"] | None,
    typer.Option(
        "--swap",
        help="Of layers that the scheme trains in part, other columns can be trained while it "
        "runs, drawn at random or by what their turns were worth; the weights are kept in flash: "
        "`train --swap`.",
        show_default=False,
    ),
]
GradientBits = Annotated[int, typer.Option(help="8 or 16: width of gradient tensors.")]
Stream = Annotated[
    Literal["auto", "least", "off", "max"],
    typer.Option(
        help="Compute the first layers row by row, so that none of their images lies in memory as "
        "a whole, for more instructions. auto: as far as the board or --sram asks for it; without "
        "these as least, unless that costs more of the instructions than it saves of the bytes. "
        "least: as far as it makes the arena smaller. off: not at all. max: to the least of the "
        "front."
    ),
]
Latent = Annotated[
    str,
    typer.Option(
        metavar="auto|off|TENSOR",
        help="Compute what lies before the first trained layer once for each sample, and begin "
        "steps with that tensor, its latent: the same bits in less time. auto does so where no "
        "augmentation varies the samples; or name a tensor, see `mcutrain plan`.",
    ),
]
Part = Annotated[
    Literal["whole", "tail"],
    typer.Option(
        help="tail leaves out what lies before the latent: somebody else computes it and sends "
        "latents for samples."
    ),
]
Proxies = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Cheaper fronts, of which a policy takes one for each sample, as `mcutrain proxies` "
        "wrote them for this model and scheme.",
        show_default=False,
    ),
]
Drift = Annotated[
    bool,
    typer.Option(
        "--drift",
        help="With --proxies: correct the policy by what samples taught, to cheaper fronts or to "
        "dearer ones; each 16th sample then takes the whole front, to compare with.",
    ),
]
Begin = Annotated[
    str,
    typer.Option(
        "--latent",
        metavar="auto|TENSOR",
        help="Which tensor a tail begins with; auto leaves out as much as can be.",
    ),
]
Remember = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="A ring of N latents, of all samples so far drawn alike: in the slots of a board's "
        "flash, which are as large as it needs, for `train --replay`, or in a library's memory. "
        "With --latent auto if nothing else is said.",
        rich_help_panel=MEMORY,
    ),
]
NoQas = Annotated[
    bool, typer.Option("--no-qas", help="Leave out quantization-aware scaling (but in the head).")
]
ResidualBits = Annotated[
    int | None,
    typer.Option(
        help="0, 2, 4 or 8: fraction bits beside each trained weight; the scheme's own by default.",
        show_default=False,
    ),
]
BiasBits = Annotated[
    int | None,
    typer.Option(
        help="32 or 16: of each trained bias but the classifier's; with 16 the state holds its "
        "difference to the model's. The scheme's own by default.",
        show_default=False,
    ),
]
HeadResidualBits = Annotated[
    int | None, typer.Option(help="The same for the classifier.", show_default=False)
]
HeadRate = Annotated[
    float | None,
    typer.Option(
        metavar="F",
        help="The learning rate of the classifier is F times that of all else. By default the "
        "scheme's head_rate; if it has none, 8 for a new classifier and 1 for the model's own.",
        show_default=False,
    ),
]
UpdateRule = Annotated[
    str | None,
    typer.Option(
        "--update-rule",
        metavar="RULE",
        help="How gradients become steps: sgd, momentum (a byte more for each weight) or rmsprop "
        "(4 bytes for each output channel). The scheme's own by default, which is sgd.",
        show_default=False,
    ),
]
HeadStart = Annotated[
    Literal["zeros", "random", "prototypes"],
    typer.Option(
        help="What a new classifier starts from: zeros, random weights, or prototypes, the mean of "
        "each class's samples, which tell them apart before the first step.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 2, help="Of everything that is random.")]
Board = Annotated[
    str | None,
    typer.Option(
        metavar="BOARD",
        help="The board to generate firmware for: stm32f746g-disco, nucleo-f446re, nucleo-f401re, "
        "nucleo-f303re, rpi-pico, rpi-pico-usb, netduinoplus2, mps2-an386, mps2-an500, "
        "mps3-an547, raspberry-pi, native, or a folder with a board.toml.",
        autocompletion=boards,
        show_default=False,
    ),
]
Slots = Annotated[
    Literal["on", "off"],
    typer.Option(
        help="`off` gives the flash of the board's slots, which keep the trained state, to the "
        "program: more fits, but what is learnt does not survive a power cut.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def usual_options() -> StepOptions:
    """Those of commands that are given no flag."""
    from mcutrain.pipeline import StepOptions

    return StepOptions(loss=AUTO)


@dataclass(frozen=True)
class StepRequest:
    """What flags say of a training step.

    options: but for the classes of a new head, which the data may decide. pet: of a graph that has
    its modules already. put: these, if the model's file has them not. kept: the scheme of an
    earlier run, which its text need not tell.
    """

    scheme: str = "head"
    options: StepOptions = field(default_factory=usual_options)
    no_qas: bool = False
    residual_bits: int | None = None
    head_residual_bits: int | None = None
    bias_bits: int | None = None
    head_rate: float | None = None
    stream: Literal["auto", "least", "off", "max"] = "auto"
    pet: str | None = None
    proxies: Path | None = None
    put: PutModules | None = None
    kept: UpdateScheme | None = None
    update_rule: str | None = None

    def having(self, **changes: Any) -> StepRequest:
        """The same with other options."""
        return replace(self, options=replace(self.options, **changes))

    def prepare(
        self,
        graph: Graph,
        classes: int | None,
        head_seed: int = 0,
        head_start: quant.HeadStart | None = None,
    ) -> TrainingStep:
        """The planned step. classes: of a new head, None keeps the model's own.

        head_start: as mcutrain.pipeline.prepare takes it.
        """
        with placing() as report:
            step = self.planned(graph, classes, head_seed, report, head_start)
        if step.left_out:
            say(
                f"mcutrain: note: {len(step.left_out)} modules of the model are not trained and "
                "have learnt nothing: they are left out"
            )
        return step

    def planned(
        self,
        graph: Graph,
        classes: int | None,
        head_seed: int = 0,
        report: Callable[[int, int], None] = lambda nodes, of: None,
        head_start: quant.HeadStart | None = None,
    ) -> TrainingStep:
        """The same, without a word. report: as `mcutrain.pipeline.prepare` takes it."""
        from mcutrain.pipeline import prepare
        from mcutrain.proxies import kept_ladder

        return prepare(
            graph,
            self.update_scheme(),
            replace(self.options, classes=classes),
            ladder=None if self.proxies is None else kept_ladder(self.proxies),
            head_start=head_start,
            head_seed=head_seed,
            stream=self.stream,
            report=report,
        ).of_model(self.put)

    def recipe(self, classes: int | None) -> Recipe:
        """The same as a recipe, to compare with one: of a ladder it knows the number of fronts."""
        from mcutrain.autodiff import Levels
        from mcutrain.pipeline.recipe import Recipe
        from mcutrain.proxies import read_facts

        options = replace(self.options, classes=classes)
        if self.proxies is not None:
            count = 1 + read_facts(self.proxies)["proxies"]
            options = replace(options, levels=Levels(count, "", options.drift))
        return Recipe(self.update_scheme(), options, pet=self.pet or "")

    def update_scheme(self) -> UpdateScheme:
        """What is trained, with the flags that change it."""
        scheme = scheme_of(self.scheme) if self.kept is None else self.kept
        if self.no_qas:
            scheme = replace(scheme, qas=False)
        if self.residual_bits is not None:
            scheme = replace(scheme, residual_bits=self.residual_bits, layer_residual_bits={})
        if self.head_residual_bits is not None:
            scheme = replace(scheme, head_residual_bits=self.head_residual_bits)
        if self.head_rate is not None:
            scheme = replace(scheme, head_rate=self.head_rate)
        if self.bias_bits is not None:
            scheme = replace(scheme, bias_bits=self.bias_bits)
        if self.update_rule is not None:
            scheme = replace(scheme, update_rule=self.update_rule)
        if self.pet is not None:
            from mcutrain.modules import parse_pet

            scheme = parse_pet(self.pet).scheme(scheme)
        return scheme


@dataclass(frozen=True)
class StepFlags:
    """Flags of the commands that plan a training step, besides its scheme."""

    add_class: AddClass = None
    loss: Loss = "auto"
    accumulate: Accumulate = 1
    gradient_bits: GradientBits = 8
    residual_bits: ResidualBits = None
    head_residual_bits: HeadResidualBits = None
    bias_bits: BiasBits = None
    head_rate: HeadRate = None
    gate: Gate = None
    stream: Stream = "auto"
    update_rule: UpdateRule = None

    def asked(self, scheme: str, no_qas: bool = False) -> StepRequest:
        """The same with a scheme. Raises McutrainError for a class that is given twice."""
        from mcutrain.pipeline import StepOptions

        if self.gradient_bits not in (8, 16):
            raise typer.BadParameter(
                f"gradients have 8 or 16 bits, not {self.gradient_bits}",
                param_hint="--gradient-bits",
            )
        options = StepOptions(
            f"int{self.gradient_bits}",
            self.accumulate,
            self.gate,
            added=added(self.add_class),
            loss=self.loss,
        )
        return StepRequest(
            scheme,
            options,
            no_qas,
            self.residual_bits,
            self.head_residual_bits,
            self.bias_bits,
            self.head_rate,
            self.stream,
            update_rule=self.update_rule,
        )


@dataclass(frozen=True)
class BoardFlags:
    """Flags of the board that a step is for."""

    board: Board = None
    slots: Slots = "on"

    @property
    def target(self) -> Target | None:
        """The board, with its slots or without. Raises TargetError."""
        from mcutrain.target import target_of

        return target_of(self.board, self.slots)


@dataclass(frozen=True)
class AdaptiveFlags:
    """Flags of steps of which a running program chooses what they train."""

    elastic: IsElastic = False
    swap: IsSwap = None

    def of(self, step: StepRequest) -> StepRequest:
        """The step with them."""
        return step.having(elastic=self.elastic, swap=self.swap or "")


@dataclass(frozen=True)
class LadderFlags:
    """Flags of a ladder of fronts."""

    proxies: Proxies = None
    drift: Drift = False

    def of(self, step: StepRequest) -> StepRequest:
        """The step with it."""
        return replace(step, proxies=self.proxies).having(drift=self.drift)


def fit_classes(
    graph: Graph, split: Split, classes: str, class_names: Sequence[str] = ()
) -> tuple[int | None, Split]:
    """The outputs of a new head for this data, None to keep the model's own, and ordered labels.

    Says what was guessed. Raises DataError for data without labels, or other classes.
    """
    from mcutrain.pipeline.losses import fit_classes

    fitted = fit_classes(graph, split, as_classes(classes), class_names)
    _say_notes(fitted.notes)
    return fitted.classes, fitted.split


def fit_to_data(
    graph: Graph,
    split: Split,
    classes: str,
    flags: StepRequest,
    class_names: Sequence[str] = (),
    *,
    replays: bool = False,
) -> tuple[int | None, StepRequest, Split]:
    """The outputs of a new head (None: the model's own), flags with a loss, and ordered labels.

    The flags get the names of the outputs, too. Says what was guessed, and what may be forgotten
    unless samples of an earlier run are replayed. Raises DataError where data, model, --loss,
    --add-class and --class-names do not fit.
    """
    from mcutrain.pipeline.losses import fit_to_data

    loss, added = flags.options.loss, flags.options.added
    fitted = fit_to_data(graph, split, as_classes(classes), loss, added, class_names)
    _say_notes(fitted.notes if replays else (*fitted.notes, fitted.forgets))
    flags = flags.having(loss=fitted.loss, class_names=fitted.class_names)
    return fitted.classes, flags, fitted.split


def _say_notes(notes: Sequence[str]) -> None:
    for note in filter(None, notes):
        say(f"mcutrain: note: {note}")


def as_classes(text: str) -> int | str:
    """A number as one."""
    return text if text in (AUTO, KEEP) else int(text)


def added(names: list[str] | None) -> tuple[str, ...]:
    """The names of --add-class, each of which is new."""
    from mcutrain.data import as_names

    return as_names(names or ())


def scheme_of(text: str) -> UpdateScheme:
    """What `parse_scheme` reads, or what the run of a checkpoint or a state trained.

    Raises SchemeError, StateError.
    """
    from mcutrain.sparse import parse_scheme
    from mcutrain.trained.state import is_state, read_state

    if Path(text).is_file() and is_state(Path(text)):
        recipe = read_state(Path(text)).recipe
        if recipe is not None:
            return recipe.scheme
    return parse_scheme(text)


def new_classes(text: str) -> int | None:
    """The outputs of a new head, None for `keep`."""
    return None if text == KEEP else int(text)
