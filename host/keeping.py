"""What a run on a board keeps: its state in the board's flash and in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mcutrain_host import saved as saved_files
from mcutrain_host.board_session import BoardSession
from mcutrain_host.errors import HostError, RefusedError
from mcutrain_host.protocol import Saved
from mcutrain_host.pull import read_state
from mcutrain_host.saved import SavedState


class Keeping:
    """Keeps what was learnt, on the board and in the file.

    saved_position: of what is kept in one of them. saved: on the board, None if it cannot.
    """

    def __init__(self, run: BoardSession) -> None:
        self.run = run
        self.saved_position = 0
        self.saved: Saved | None = None
        self.in_file: SavedState | None = None

    def replace_saved(self, position: int) -> int:
        """Save, so that a restart does not bring back what an earlier run saved."""
        if self.run.identity.has_slots:
            self.saved = self._save_on_board(position)
        return position

    def _save_on_board(self, position: int) -> Saved:
        saved = self.run.device.save()
        if saved.position != position:
            raise HostError(
                f"the board at {self.run.name} saved a state of position "
                f"{saved.position:,} in the place of {position:,}; is another program training it?"
            )
        return saved

    def write(self, state: SavedState) -> int:
        """Bring a state to the board. Returns its position."""
        if self.run.identity.resamples:
            raise HostError(
                f"the board at {self.run.name} keeps weights of resampled columns in its "
                "flash, where no state is written over the line: leave out --from, or begin anew "
                "with --fresh"
            )
        self.run.device.write_state(
            state.raw, lambda done, of: self.run.watch.transferred("writing the state", done, of)
        )
        self.in_file = state
        return state.position(self.run.identity.samples_per_update)

    def save(self) -> None:
        """In the board's flash, or in the file where the board has no slots."""
        if not self.run.identity.has_slots:
            self.pull()
            return
        self.saved = self._save_on_board(self.run.position)
        self.saved_position = self.saved.position
        self.run.write_log("saved", {"number": self.saved.number})

    def keep(self, steps: int) -> None:
        """In the board's flash and in the file. A refusal comes after the file is written.

        steps: done in this run.
        """
        refusal = None
        state = self._saved_earlier(steps)
        saves = self.run.identity.has_slots and not self.run.is_looking
        if saves and state is None:
            try:
                self.save()
            except RefusedError as error:
                refusal = error
        self.pull(state, is_saved=saves and refusal is None)
        if refusal:
            raise refusal

    def _saved_earlier(self, steps: int) -> SavedState | None:
        """The board's state, if its newest save holds just this: one more would only wear flash."""
        earlier = self.run.settings.earlier
        if earlier is None or steps:
            return None
        kept = Saved(earlier.save, self.run.position)
        if self.saved not in {None, kept}:
            return None
        if not self.run.identity.has_slots or earlier.save != self.run.identity.save_number:
            return None
        state = self._read()
        if _sha256(state) != earlier.sha256:
            return None
        self.saved = kept
        return state

    def keep_without_log(self, steps: int) -> None:
        """Keep the state when the log cannot be written; the error that is told is the log's."""
        self.run.log = _NoLog()
        try:
            self.keep(steps)
        except HostError as error:
            self.run.watch.say(str(error))

    def _read(self) -> SavedState:
        return read_state(
            self.run.device,
            self.run.settings.firmware,
            lambda done, of: self.run.watch.transferred("reading the state", done, of),
            self.run.position,
        )

    def pull(self, known: SavedState | None = None, *, is_saved: bool = False) -> None:
        """To the file. known: the board's state. is_saved: it is also what was saved last."""
        state = self._read() if known is None else known
        saved_files.write(self.run.settings.state, state.raw, self.run.settings.recipe)
        self.in_file = state
        self.saved_position = max(self.run.position, self.saved_position)
        facts: dict[str, Any] = {"file": str(self.run.settings.state)}
        if is_saved and self.saved is not None:
            facts |= {"save": self.saved.number, "sha256": _sha256(state)}
        facts |= self.run.settings.counted(state.raw)
        self.run.write_log("pulled", facts)


def _sha256(state: SavedState) -> str:
    return hashlib.sha256(state.raw).hexdigest()


class _NoLog:
    """In the place of a log that cannot be written."""

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass
