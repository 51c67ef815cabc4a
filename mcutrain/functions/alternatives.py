"""What is chosen for a memory, and what would be for less or more of it: see the chooser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from mcutrain_host.dataclass import dataclass

from mcutrain.shown import Record, Shown

Report = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""


@dataclass(frozen=True)
class Alternative:
    """A smaller or larger scheme, as text, and the SRAM that it takes. fits: if there is so much.

    share: of what the chosen scheme can learn, by gradients; None where nothing was measured.
    """

    scheme: str
    sram_bytes: int
    fits: bool
    share: float | None = None


@dataclass(frozen=True, repr=False)
class AutoScheme(Shown):
    """What `simulate` trains if nobody names a scheme: `scheme`, as text that `--scheme` takes.

    why: the reason, in a sentence.
    sram_bytes: what its step takes of `limit_bytes`; None is no limit.
    larger: what the next bytes would buy; None where everything is trained, or nothing is known.
    smaller: a scheme for half of the bytes or less that should learn as much; None if none is
        known. Without a board or a budget it may be one that learns less.
    """

    scheme: str
    reason: str
    sram_bytes: int
    limit_bytes: int | None
    larger: Alternative | None = None
    smaller: Alternative | None = None

    def summary(self) -> str:
        """Return a line that describes it."""
        of = "" if self.limit_bytes is None else f" of {self.limit_bytes:,}"
        return f"{self.scheme}: {self.reason}; {self.sram_bytes:,}{of} bytes of SRAM"

    def to_dict(self) -> Record:
        """Return values for JSON."""
        return asdict(self)
