"""Where a run on a board begins, and where it goes on when the board was gone."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from mcutrain_host import saved as saved_files
from mcutrain_host.board_session import BoardSession
from mcutrain_host.errors import (
    DeviceRestartedError,
    HostError,
    LinkError,
    PortError,
    RefusedError,
    StateFileError,
)
from mcutrain_host.keeping import Keeping
from mcutrain_host.lessons import Begin
from mcutrain_host.protocol import Identity
from mcutrain_host.saved import SavedState

RETRY_SECONDS = 0.5
"""Between two attempts to find an unplugged board again."""
RESTARTS_IN_PLACE = 5
"""So many restarts of the board without a step between them end the run."""
RESTARTS_WITHOUT_GAIN = 100
"""So many without a step further than ever before: it loses all that it learns."""


class Restarts:
    """Finds the board again when it restarts or is gone. count: how often it was."""

    def __init__(self, run: BoardSession) -> None:
        self.run = run
        self.count = self._in_place = self._without_gain = self._furthest = 0

    def bring(self, to_position: Callable[[], int]) -> int:
        """Do what brings the board to a position, again if it restarts meanwhile."""
        while True:
            try:
                return to_position()
            except LinkError as error:
                self.reconnect(error)

    def reconnect(self, error: LinkError) -> None:
        """Find the board again. Raises what cannot be helped."""
        self.count += 1
        self._in_place += 1
        self._without_gain += 1
        if self._without_gain > RESTARTS_WITHOUT_GAIN:
            raise HostError(
                f"the talk with the board broke off {RESTARTS_WITHOUT_GAIN} times, and it never "
                f"came past position {self._furthest:,}; the last time: {error}"
            ) from error
        if self._in_place > RESTARTS_IN_PLACE:
            raise HostError(
                f"the talk with the board broke off {RESTARTS_IN_PLACE} times at position "
                f"{self.run.position:,} without a step between; the last time: {error}"
            ) from error
        self.run.identified(self._find_again(error))

    def _find_again(self, error: LinkError) -> Identity:
        until = time.monotonic() + self.run.settings.reconnect_seconds
        if isinstance(error, DeviceRestartedError):
            try:
                return self.run.device.identify()
            except LinkError as next_error:
                error = next_error
        while time.monotonic() < until:
            if self.run.stop():
                raise error
            try:
                return self.run.device.reopen()
            except (LinkError, PortError):
                time.sleep(RETRY_SECONDS)
        raise error

    def gained(self, position: int) -> None:
        """A step is done, which ends there."""
        self._in_place = 0
        if position > self._furthest:
            self._furthest, self._without_gain = position, 0


class RunStart:
    """Where a run begins, and goes on after a restart. Its methods return positions."""

    def __init__(self, run: BoardSession, keeping: Keeping) -> None:
        self.run, self.keeping = run, keeping

    def begin(self) -> int:
        """Bring the board to where the run starts. Returns the position."""
        settings, identity = self.run.settings, self.run.identity
        if settings.begin is Begin.FRESH:
            return self.keeping.replace_saved(self.run.device.reset(settings.seed))
        if settings.begin is Begin.FILE:
            assert settings.source is not None, "Begin.FILE has a file"
            state = self._read_file(settings.source)
            self.run.checked(state.position(identity.samples_per_update))
            return self.keeping.replace_saved(self.keeping.write(state))
        in_file = self._state_in_file()
        learnt = in_file.position(identity.samples_per_update) if in_file else 0
        position = self._valid_position()
        if position == 0 and in_file is not None and learnt > 0:
            if identity.has_slots:
                raise StateFileError(
                    f"{settings.state} has learnt from {learnt:,} samples, the board from none; "
                    f"--from {shlex.quote(str(settings.state))} goes on there, --fresh begins anew"
                )
            self.run.watch.say(
                f"the board keeps no state, so {settings.state} is written to it: "
                f"{learnt:,} samples learnt"
            )
            return self.keeping.write(in_file)
        if position == 0 and self.run.lessons.first == 0:
            return self.run.device.reset(settings.seed)
        return position

    def after_restart(self) -> int:
        """Return where the board is after a restart, or what this run kept for it."""
        position = self._valid_position()
        if position > 0:
            return position
        if self.keeping.in_file is not None:
            return self.keeping.write(self.keeping.in_file)
        return self.run.device.reset(self.run.settings.seed)

    def _valid_position(self) -> int:
        """The board's, after a state that was written in part has been replaced."""
        if self.run.identity.is_complete:
            return self.run.identity.position
        if self.run.identity.has_slots:
            try:
                return self.run.device.restore().position
            except RefusedError:
                pass  # nothing is saved
        return self.run.device.reset(self.run.settings.seed)

    def _state_in_file(self) -> SavedState | None:
        """Return what an earlier run left. Raises StateFileError, ModelMismatchError."""
        state = self.run.settings.state
        return self._read_file(state) if state.exists() else None

    def _read_file(self, path: Path) -> SavedState:
        """As long as the board's. Raises StateFileError, ModelMismatchError."""
        firmware, saved_bytes = self.run.settings.firmware, self.run.identity.saved_bytes
        advice = "--fresh begins anew and replaces it; or take the file of this project"
        return saved_files.read(path, firmware.model_hash, saved_bytes, advice)
