"""Every error of a board, its port or its files, in one tree.

    HostError
    ├── ProjectError              the folder is no generated project, or not built
    ├── BuildError                no compiler, or it refused the project
    ├── CacheError                nothing can be kept in the cache folder
    ├── BusyFileError             another program writes the file
    ├── PortError                 the port cannot be opened
    ├── LinkError                 the talk with the board broke off; another try may help
    │   ├── UnpluggedError        the port is gone
    │   ├── NoAnswerError         nothing came back in time
    │   ├── NoResultError         only that the board is at work came back
    │   └── DeviceRestartedError  the session is lost; IDENTIFY begins another
    ├── WrongVersionError         the board speaks another version of the protocol
    ├── RefusedError              the board said no, with a status
    ├── ModelMismatchError        the firmware, or a saved state, is of another model
    ├── StateFileError            a file holds no trained state, or a damaged one
    │   └── StateTooLongError     it says that its state is longer than the model's
    ├── UnreadableLogError        the log of a run cannot be read
    ├── LogError                  the log cannot be written, as on a full disk
    └── FlashError                the program did not get onto the board

The command line prints the message of any of them as one sentence and exits with 2.
"""

from __future__ import annotations

from pathlib import Path


class HostError(Exception):
    """Base of all errors that a board, its port or its files can cause."""


class ProjectError(HostError):
    """The folder is no project that was generated for a board, or it was not built yet."""


class BuildError(HostError):
    """There is no compiler for the board, or it refused the project."""


class CacheError(HostError):
    """Nothing can be kept in the cache folder: it is read-only, or the disk is full."""

    def __init__(self, folder: Path | str, reason: str) -> None:
        super().__init__(
            f"the cache folder {folder} cannot be written: {reason}; set MCUTRAIN_CACHE to one "
            "that can be"
        )
        self.folder, self.reason = folder, reason


class BusyFileError(HostError):
    """Another program writes the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is written by another mcutrain, which is still running; wait for it, or give "
            "each board its own project folder (or --state and --log)"
        )
        self.path = path


class UnreadableLogError(HostError):
    """The log of a run cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}; it is there as soon as a run begins")
        self.path, self.reason = path, reason


class PortError(HostError):
    """The port cannot be opened."""

    def __init__(self, port: str, reason: str) -> None:
        super().__init__(f"cannot open {port}: {reason}")
        self.port, self.reason = port, reason


class LinkError(HostError):
    """The talk with the board broke off."""


class UnpluggedError(LinkError):
    """The port is gone: the cable, the adapter or the other end of the connection."""

    def __init__(self, port: str) -> None:
        super().__init__(f"{port} is gone: the cable was unplugged, or the other end closed")
        self.port = port


class NoAnswerError(LinkError):
    """A request got no answer, however often it was sent."""

    def __init__(self, port: str, command: str, seconds: float) -> None:
        super().__init__(
            f"{port} gave no answer to {command} in {seconds:.3g} seconds; is a board with "
            "mcutrain's firmware connected there, its baud rate the one of --baud, and no other "
            "program using it?"
        )
        self.port, self.command, self.seconds = port, command, seconds


class NoResultError(LinkError):
    """The board said of a request, more than once, that it works on it, and no more."""

    def __init__(self, port: str, command: str, seconds: float) -> None:
        super().__init__(
            f"the board at {port} says that it works on {command}, but gave no result in "
            f"{seconds:.3g} seconds"
        )
        self.port, self.command, self.seconds = port, command, seconds


class DeviceRestartedError(LinkError):
    """The board knows nothing of the session: it restarted, or another program began one."""

    def __init__(self, port: str) -> None:
        super().__init__(
            f"the board at {port} restarted, or another program began a session with it"
        )
        self.port = port


class WrongVersionError(HostError):
    """The board speaks another version of the protocol."""

    def __init__(self, port: str, ours: int, theirs: int | None) -> None:
        other = "another version of the protocol" if theirs is None else f"version {theirs}"
        super().__init__(
            f"the board at {port} speaks {other}, this program version {ours}; flash firmware "
            "of the installed mcutrain, or install the mcutrain that made the firmware"
        )
        self.port, self.ours, self.theirs = port, ours, theirs


class RefusedError(HostError):
    """The board carried a request out with a status other than OK.

    status: the number; body: what came with it.
    """

    def __init__(self, command: str, status: int, meaning: str, body: bytes = b"") -> None:
        super().__init__(f"the board refused {command}: {meaning}")
        self.command, self.status, self.body = command, status, body


class ModelMismatchError(HostError):
    """What is on the board or in a file is not of the project's model and scheme."""

    def __init__(self, what: str, theirs: int, ours: int, advice: str) -> None:
        super().__init__(
            f"{what} is of another model or scheme: its hash is {theirs:016x}, "
            f"that of the project is {ours:016x}; {advice}"
        )
        self.theirs, self.ours = theirs, ours


class StateFileError(HostError):
    """A file holds no trained state, or a damaged one."""


class StateTooLongError(StateFileError):
    """A file says that its state has more bytes than one of this model, trained so."""


class LogError(HostError):
    """The log cannot be written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot write the log {path}: {reason}")
        self.path, self.reason = path, reason


class FlashError(HostError):
    """The program did not get onto the board."""
