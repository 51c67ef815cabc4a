"""Who wants to know how far a run is."""

from __future__ import annotations

from collections.abc import Callable

from mcutrain_host.dataclass import dataclass

from mcutrain.simulation import Progress


@dataclass(frozen=True)
class Watch:
    """Who wants to know how far a run is: called with training progress, and test samples done.

    searching: called with the trials of a learning rate that are done, and how many there may be.
    noting: called with what the first test says against the order of the classes, if anything.
    resumed: called where a run goes on from its checkpoint, with the steps that are done, and all.
    """

    training: Callable[[Progress], None] = lambda _: None
    evaluating: Callable[[int], None] = lambda _: None
    searching: Callable[[int, int], None] = lambda done, of: None
    noting: Callable[[str], None] = lambda _: None
    resumed: Callable[[int, int], None] = lambda done, of: None
