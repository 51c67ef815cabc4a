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
        """A position that the run has. Raises HostError."""
        first = self.lessons.first
        if position < first:
            raise HostError(
                f"the board at {self.name} has done {position:,} steps, and this run "
                f"begins after {first:,}: finish the one before, or say --after {position}"
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
