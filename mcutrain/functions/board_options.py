"""What training on a board can be asked for; as in mcutrain.functions.options, a field is a flag.

Nothing large is imported here: the command line reads this file before it knows which command runs.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import Count, PathLike, Positive, Within
from mcutrain.errors import OptionError
from mcutrain.functions.keywords import BOARD, FILES, NOT_WORTH_IT, Flag, Keywords
from mcutrain.functions.options import file_flag, number, some_samples
from mcutrain.functions.run_options import (
    DataOptions,
    Elastic,
    Every,
    Importance,
    Replay,
    ShareOptions,
    TensorBoardFolder,
)

if TYPE_CHECKING:
    from mcutrain_host.manifest import BoardProject
    from mcutrain_host.trainer import Begin

    from mcutrain.simulation import RunSettings

STATE, LOG = "trained.mcts", "train.jsonl"


Port = Annotated[
    str | None,
    Flag(
        "Where the board is: /dev/ttyACM0, COM3, socket://127.0.0.1:5000 or another URL of "
        "pyserial; if it is left out, the only board that answers.",
        metavar="PORT",
        shown=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class LineOptions(Keywords):
    """The line to a board."""

    port: Port = None
    baud: Annotated[
        Count | None, Flag("Speed of the line, instead of the board's own.", box=BOARD, shown=False)
    ] = None


@dataclass(frozen=True, kw_only=True)
class OptionalLine(LineOptions):
    """The line to a board, if there is one."""

    port: Annotated[
        str | None,
        Flag(
            "The board's port, to end with training there: /dev/ttyACM0, COM3, "
            "socket://127.0.0.1:5000 or another URL of pyserial. Without it no board is looked "
            "for.",
            metavar="PORT",
            shown=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BoardDataOptions(DataOptions):
    """How a data set is read for a board, which need not be tested."""

    test_samples: Annotated[
        Annotated[int, Within(0)] | None,
        some_samples(
            "Only N test samples, drawn by the seed, of every class alike; 0 does not test."
        ),
    ] = None

    @property
    def read(self) -> DataOptions:
        """Options to read the samples as a simulation does, which always tests."""
        return replace(self, test_samples=self.test_samples or None)


@dataclass(frozen=True, kw_only=True)
class BoardChoices(Keywords):
    """What a board's firmware remembers, and what it chooses while it trains."""

    replay: Replay = 0
    elastic: Elastic = None
    every: Every = 0
    importance: Importance = "moves"
    swap: Annotated[
        bool,
        Flag(
            "Train other input channels every so many steps, as the project's firmware chooses.",
            "--resample",
            box=NOT_WORTH_IT,
        ),
    ] = False

    def of(self, settings: "RunSettings", project: "BoardProject") -> "RunSettings":
        """The settings with them. Raises DataError."""
        rule: Any = (project.manifest.recipe or {}).get("swap") or "drawn" if self.swap else ""
        share = ShareOptions(
            elastic=self.elastic, every=self.every, importance=self.importance, swap=rule
        )
        return share.of(settings)


@dataclass(frozen=True, kw_only=True)
class StateOptions(Keywords):
    """Where the trained state comes from, and where it is saved."""

    save_every: Annotated[
        int,
        Within(0),
        Flag(
            "How often the board saves into its flash, which wears (`mcutrain plan --board` says "
            "how many saves it outlives), or without slots into --state; 0 saves only at the end.",
            metavar="STEPS",
            box=BOARD,
        ),
    ] = 500
    state: Annotated[
        PathLike | None,
        file_flag(f"File for the trained state; DIR/{STATE} by default."),
    ] = None
    begin_from: Annotated[
        PathLike | None,
        file_flag("Write this state to the board first, and go on from it.", "--from"),
    ] = None
    fresh: Annotated[bool, Flag("Begin anew, whatever the board has learnt.", box=FILES)] = False
    after: Annotated[
        int,
        Within(0),
        Flag(
            "Go on with other data after this many steps of the board. It keeps what it has "
            "learnt, and replays what it remembers. The same command continues.",
            metavar="STEPS",
            box=FILES,
        ),
    ] = 0

    def check(self) -> None:
        """Raise OptionError for options that do not go together."""
        if self.fresh and self.begin_from is not None:
            raise OptionError("fresh", "begins anew and --from goes on: give one, not both")
        if self.fresh and self.after:
            raise OptionError("after", "goes on from what the board has learnt: leave out --fresh")

    @property
    def begin(self) -> "Begin":
        """What the board begins with."""
        from mcutrain_host.trainer import Begin

        if self.fresh:
            return Begin.FRESH
        return Begin.BOARD if self.begin_from is None else Begin.FILE


@dataclass(frozen=True, kw_only=True)
class WaitOptions(Keywords):
    """How long a board is waited for."""

    reconnect: Annotated[
        float,
        Within(0),
        Flag("Seconds to wait for a board that was unplugged.", metavar="SECONDS", box=BOARD),
    ] = 0.0
    patience: Annotated[
        float,
        Within(1),
        Flag("Seconds that the board's first step may take.", metavar="SECONDS", box=BOARD),
    ] = 120.0


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Keywords):
    """Where a run on a board is written down."""

    log: Annotated[
        PathLike | None,
        file_flag(f"Append a JSON object per step and event there; DIR/{LOG} by default."),
    ] = None
    tensorboard: TensorBoardFolder = None

    def check(self) -> None:
        """Raise LogError if TensorBoard's files cannot be written."""
        from mcutrain_host.log import check_tensorboard

        if self.tensorboard is not None:
            check_tensorboard(Path(self.tensorboard))


@dataclass(frozen=True, kw_only=True)
class ClassOptions(Keywords):
    """Which class a board learns without training, beside which."""

    label: Annotated[
        Annotated[int, Within(0)] | None,
        Flag(
            "The number of its output, from 0, where the outputs have no such name.",
            metavar="N",
            shown=False,
        ),
    ] = None
    known: Annotated[
        Count | None,
        Flag(
            "The classes 0 … K-1, except this one, are known already. By default those before a "
            "class that was added (--add-class), else all others.",
            metavar="K",
            shown=False,
        ),
    ] = None


def rate_of_steps(usual: str) -> Flag:
    """Return the flag of a learning rate that a board is told with a class. usual: the default."""
    text = "Learning rate of these steps, per sample: a number or a fraction."
    return Flag(text, "--lr", metavar="RATE", kind=str, parse=number, shown=usual)


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(Keywords):
    """The training that follows a class that is learnt without."""

    replay: Annotated[
        int,
        Within(0),
        Flag(
            "Then train R steps on samples that the board remembers (`generate --remember`).",
            metavar="R",
        ),
    ] = 0
    learning_rate: Annotated[
        Positive,
        rate_of_steps("0.001"),
    ] = 0.001


@dataclass(frozen=True, kw_only=True)
class LessonOptions(Keywords):
    """How a board learns what it has heard."""

    samples: Annotated[
        int,
        Within(0, 65_535),
        Flag(
            "The class is new: the next N windows that stand out are samples of it, and give it "
            "its weights (`generate --imprint`).",
            metavar="N",
        ),
    ] = 0
    steps: Annotated[
        int, Within(1, 65_535), Flag("Steps on the window; of a new class, on the last one.")
    ] = 4
    replay: Annotated[
        int,
        Within(0, 65_535),
        Flag(
            "After each of these steps, train R steps on samples that the board remembers "
            "(`generate --remember`).",
            metavar="R",
        ),
    ] = 0
    learning_rate: Annotated[
        Positive,
        rate_of_steps("0.01"),
    ] = 0.01
    wait: Annotated[
        float, Within(0.0), Flag("Seconds to wait for the samples.", metavar="SECONDS")
    ] = 60.0


@dataclass(frozen=True, kw_only=True)
class ProofOptions(Keywords):
    """How a board proves that it computes what the simulation computes."""

    emulator: Annotated[bool, Flag("A virtual board instead of one with a cable.")] = False
    steps: Annotated[int, Within(1, 2000), Flag("Steps to compare.")] = 100
    power_cuts: Annotated[
        Annotated[int, Within(0, 500)] | None,
        Flag(
            "Power cuts. It asks you to pull the cable for each; 0 if not given, 10 for an "
            "emulator.",
            metavar="N",
            shown=False,
        ),
    ] = None
    keep: Annotated[
        PathLike | None,
        Flag("Keep the generated program there.", metavar="DIR", kind=Path, shown=False),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Keywords):
    """How a board's firmware is compiled."""

    compiler: Annotated[
        str | None,
        Flag(
            "gcc, zig, or a compiler's name; the board's gcc if it is installed, else zig.",
            shown=False,
        ),
    ] = None
    optimize: Annotated[
        Literal["1", "2", "3", "s"], Flag("1, 2, 3 or s.", metavar="LEVEL", short="-O")
    ] = "3"


@dataclass(frozen=True, kw_only=True)
class FlashOptions(Keywords):
    """How firmware comes onto a board."""

    port: Annotated[
        str | None,
        Flag(
            "Serial port of the chip's bootloader, or of a board over USB that restarts into it, "
            "which may be left out where one board fits. Afterwards the firmware is asked there "
            "who it is.",
            metavar="PORT",
            shown=False,
        ),
    ] = None
    way: Annotated[
        str | None,
        Flag(
            "stm32, pyocd, uf2, scp or local; the first of the board's that has what it needs if "
            "not given.",
            shown=False,
        ),
    ] = None
    to: Annotated[
        str | None,
        Flag(
            "uf2: the folder of the board's drive; scp: USER@HOST; local: a folder or file.",
            metavar="WHERE",
            shown=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EmulationOptions(Keywords):
    """What a virtual board is connected to, and what goes wrong on the way."""

    link: Annotated[
        str, Flag("pty (a new pseudo-terminal), pty:PATH (a link to it), tcp or tcp:PORT.")
    ] = "pty"
    flash: Annotated[
        PathLike | None,
        Flag(
            "File that keeps the content of the flash from one run to the next.",
            metavar="FILE",
            kind=Path,
            shown=False,
        ),
    ] = None
    empty: Annotated[
        bool,
        Flag("Start with empty flash and the boot button held, for `mcutrain flash`."),
    ] = False
    noise: Annotated[
        float,
        Within(0, 0.1),
        Flag("Share of bytes that the line loses, changes or doubles, each way.", metavar="SHARE"),
    ] = 0.0
    play: Annotated[
        PathLike | None,
        Flag(
            "Let firmware of --app learn --sensor hear or see this file of sound, rows or an "
            "image, or a folder of images, again and again, at its rate.",
            metavar="FILE",
            kind=Path,
        ),
    ] = None
    emulator: Annotated[
        Literal["unicorn", "qemu"], Flag("unicorn, or qemu for the boards that it knows.")
    ] = "unicorn"
