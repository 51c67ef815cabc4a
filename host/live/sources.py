"""Where records come from: a log that another program writes, a board that is asked, a run here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from mcutrain_host.client import Device
from mcutrain_host.errors import DeviceRestartedError, LinkError, PortError, UnreadableLogError
from mcutrain_host.live.facts import (
    ENDS,
    LiveFacts,
    LiveRun,
    Record,
    identity_facts,
    statistics_facts,
)
from mcutrain_host.log import Log
from mcutrain_host.protocol import Statistics
from mcutrain_host.reading import opened
from mcutrain_host.text import printable, reason

READ_BYTES = 1 << 20
"""Most of a log that is read at once; a line that is longer is not ours."""
ASK_SECONDS = 10.0
"""How often a run asks its board what it counted: that takes a frame each way."""
SHOW_SECONDS = 0.25
"""How often a view is told of steps."""


class LiveSource(Protocol):
    """Something that can be looked at again and again."""

    def ask(self) -> LiveFacts:
        """Return what is known now. Raises HostError if it cannot be looked at."""

    def poll(self) -> LiveFacts:
        """Return what is known now, and in it why nothing new is, if so."""

    def values(self) -> dict[str, Any]:
        """The facts as a script wants them. Raises HostError as `ask`."""

    @property
    def is_over(self) -> bool:
        """Whether what was looked at last is the end: of a run, that is; a board has none."""

    def close(self) -> None:
        """No more."""


class LogSource:
    """A log, as it grows. One that is replaced or cut is read anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def ask(self) -> LiveFacts:
        """Read what was appended. Raises UnreadableLogError."""
        try:
            self._read()
        except OSError as error:
            raise UnreadableLogError(self.path, reason(error)) from error
        return self.run.facts

    def poll(self) -> LiveFacts:
        """Read what was appended."""
        try:
            return self.ask()
        except UnreadableLogError as error:
            self.run.fail(str(error))
            return self.run.facts

    def values(self) -> dict[str, Any]:
        """All facts, by their names. Raises UnreadableLogError."""
        return asdict(self.ask())

    @property
    def is_over(self) -> bool:
        """Whether the run was finished or interrupted when the log was read last."""
        return self.run.facts.state in ENDS

    def close(self) -> None:
        """Nothing is open."""

    def _begin(self) -> None:
        self.run, self._offset, self._file = LiveRun(str(self.path)), 0, (0, 0)

    def _read(self) -> None:
        with opened(self.path) as file:
            now = os.fstat(file.fileno())
            if (now.st_dev, now.st_ino) != self._file or now.st_size < self._offset:
                self._begin()
                self._file = now.st_dev, now.st_ino
            file.seek(self._offset)
            while block := file.read(READ_BYTES):
                whole, end, rest = block.rpartition(b"\n")
                if not end and len(rest) < READ_BYTES:
                    return  # the last line is being written
                used = len(whole) + len(end) or len(block)
                self._offset += used
                file.seek(self._offset)
                found = map(Record.parse, whole.split(b"\n"))
                self.run.take(record for record in found if record is not None)


class BoardSource:
    """A board that is asked. One that goes away is looked for again."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._run = LiveRun(device.link.name)
        self._is_known = self._is_gone = False

    def ask(self) -> LiveFacts:
        """Ask what it counted. Raises HostError."""
        counted = self._counted()
        identity, position = self.device.identity, counted.position
        if not self._is_known:
            self._take("connected", position, identity_facts(identity))
            self._is_known = True
        self._take("statistics", position, statistics_facts(identity, counted))
        return self._run.facts

    def poll(self) -> LiveFacts:
        """Ask what it counted; a board that went away is looked for again."""
        try:
            if self._is_gone:
                self.device.reopen()
            self._is_gone = False
            return self.ask()
        except (LinkError, PortError) as error:
            self._is_gone, self._is_known = True, False
            self._run.fail(str(error))
            return self._run.facts

    def values(self) -> dict[str, Any]:
        """Return what it is and what it counted, by the protocol's names. Raises HostError."""
        counted = self._counted()
        identity = asdict(self.device.identity)
        identity["model_hash"] = f"{identity['model_hash']:016x}"
        identity["has_slots"] = self.device.identity.has_slots
        return {**identity, **asdict(counted), "loss": counted.loss_q16 / 65536}

    @property
    def is_over(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Give the port free."""
        self.device.close()

    def _counted(self) -> Statistics:
        """Its answer, in a new session if it restarted."""
        try:
            return self.device.statistics()
        except DeviceRestartedError:
            self.device.identify()
            return self.device.statistics()

    def _take(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        self._run.take([Record(event, time.time(), position, facts)])


class LiveLog:
    """Takes down a run that this program does, and tells a view of it.

    earlier: the log of the run so far, which may go on. show: told at most every SHOW_SECONDS,
    and at once of what is no step.
    """

    def __init__(
        self, source: str, show: Callable[[tuple[LiveFacts, ...]], None], earlier: Path
    ) -> None:
        self._show, self._shown = show, 0.0
        self._run = _run_so_far(earlier)
        self._run.source = printable(source)

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        """An event."""
        self._run.take([Record(event, time.time(), position, facts)])
        now = time.monotonic()
        if event != "step" or now - self._shown >= SHOW_SECONDS:
            self._shown = now
            self._show((self._run.facts,))

    def close(self) -> None:
        """Show all of it."""
        self._show((self._run.facts,))


def _run_so_far(log: Path) -> LiveRun:
    """A run by its log; one that nothing is known of if there is none."""
    source = LogSource(log)
    source.poll()
    source.run.fail("")
    return source.run


class AskingLog:
    """Hands on what a run writes, and adds what its board counted: stack, saves, the line's faults.

    It asks between two steps, so it may raise LinkError, after which the run finds its board again.
    """

    def __init__(self, log: Log, device: Device) -> None:
        self.log, self.device = log, device
        self._asked = -ASK_SECONDS

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        """An event. Raises LogError, LinkError."""
        self.log.write(event, position, facts)
        now = time.monotonic()
        if event == "step" and now - self._asked >= ASK_SECONDS:
            self._asked = now
            counted = self.device.statistics()
            self.log.write("statistics", position, statistics_facts(self.device.identity, counted))

    def close(self) -> None:
        """Close what it hands on to."""
        self.log.close()
