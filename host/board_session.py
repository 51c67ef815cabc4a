"""The board of a run as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcutrain_host.client import Device
from mcutrain_host.errors import HostError
from mcutrain_host.lessons import Lessons, Settings, TrainingObserver
from mcutrain_host.log import Log
from mcutrain_host.protocol import Identity
from mcutrain_host.pull import check_firmware


class BoardSession:
    """The board of a run as it stands, and who hears of it. position: how much it has learnt."""

    def __init__(
        self,
        device: Device,
        lessons: Lessons,
        settings: Settings,
        log: Log,
        watch: TrainingObserver,
        stop: Callable[[], bool],
    ) -> None:
        self.device, self.lessons, self.settings = device, lessons, settings
        self.log, self.watch, self.stop = log, watch, stop
        self.position = 0
        self._identity: Identity | None = None

    @property
    def name(self) -> str:
        """Name of the port, for sentences."""
        return self.device.link.name

    @property
    def identity(self) -> Identity:
        """Identity of the board, as it was when a session began last."""
        assert self._identity is not None, "a run begins with it"
        return self._identity

    def identified(self, identity: Identity) -> None:
        """Take note of what the board says of itself. Raises HostError for other firmware."""
        self._identity = identity
        check_firmware(self.device, self.settings.firmware)

    def checked(self, position: int) -> int:
        """A position that the run has, and can go on from. Raises HostError."""
        first, total = self.lessons.first, self.lessons.total
        done = f"the board at {self.name} has done {position:,} steps"
        if position < first:
            raise HostError(
                f"{done}, and this run begins after {first:,}: finish the one before, or say "
                f"--after {position}"
            )
        is_done_otherwise = position == total and self.settings.is_other_course
        if total > first and (position > total or is_done_otherwise):
            how = " with other samples or settings" if self.settings.is_other_course else ""
            raise HostError(
                f"{done}{how}, and this run ends after {total:,}: --fresh begins anew, --after "
                f"{position} begins with these samples where those end, more --epochs go on, and "
                "the flags of the run before, or `mcutrain pull`, bring here what it learnt"
            )
        return position

    @property
    def is_looking(self) -> bool:
        """Whether one more save might overwrite a state that the board's choice needs."""
        selecting = self.lessons.selecting
        is_over = self.position >= self.lessons.total
        return selecting is not None and not is_over and selecting.is_looking(self.position)

    def write_log(self, event: str, facts: Mapping[str, Any]) -> None:
        """Add a line with the position."""
        self.log.write(event, self.position, facts)
