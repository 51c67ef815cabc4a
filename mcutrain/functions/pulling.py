"""What a board has learnt, brought to this computer."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mcutrain_host import pull as board
from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import BoardProject

from mcutrain.arguments import PathLike, checked
from mcutrain.errors import McutrainError
from mcutrain.functions.board_line import connected
from mcutrain.functions.board_options import STATE, LineOptions
from mcutrain.functions.files import check_writable
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.shown import Record, Shown
from mcutrain.trained.state import read_state

READING = "reading the state"


@dataclass(frozen=True, repr=False)
class Pulled(Shown):
    """What a board has learnt. state: the file. saved: the state, as mct_state_save writes it.

    position: how many samples it has learnt from. has_slots: whether the board keeps it, too.
    """

    state: Path
    saved: bytes
    position: int
    has_slots: bool

    def summary(self) -> str:
        """Return a line that describes it."""
        return f"{self.state}: {len(self.saved):,} bytes, learnt from {self.position:,} samples"

    def to_dict(self) -> Record:
        """Return it as `mcutrain pull --json` prints it."""
        return {
            "state": str(self.state),
            "position": self.position,
            "state_sha256": hashlib.sha256(self.saved).hexdigest(),
            "has_slots": self.has_slots,
        }


@with_keywords
@checked
def pull(
    project: PathLike,
    output: PathLike | None = None,
    *,
    line: LineOptions = LineOptions(),
    listener: Listener = SILENT,
) -> Pulled:
    """Bring what a board has learnt to this computer. The board only answers.

    `train_board` does so by itself at its end; this is for a board that was away, and learnt from
    its own sensor. A file that has learnt more is not replaced.

    output: the file; by default the project's trained.mcts. line: port and baud, keywords, too.

    Raises BuildError with what the line, the project, the board or the file say; McutrainError for
    a file that cannot be written.

    >>> pull("project", port="/dev/ttyACM0").state  # for export
    """
    board_project = BoardProject.read(Path(project))
    file = Path(output or board_project.folder / STATE)
    check_writable(file)
    recipe = board_project.manifest.recipe_text(_learnt_names(board_project.folder / STATE))
    with connected(board_project, line, listener) as device, listener.counting(READING) as tell:
        state = board.pull(
            device, board_project.firmware, file, lambda done, of: tell(READING, done, of), recipe
        )
    position = state.position(device.identity.samples_per_update)
    return Pulled(file, state.raw, position, device.identity.has_slots)


def _learnt_names(state: Path) -> tuple[str, ...]:
    """Names of the classes, if the run that left this state knew them; else none."""
    try:
        recipe = read_state(state).recipe
    except McutrainError:
        return ()
    return () if recipe is None else recipe.options.class_names
