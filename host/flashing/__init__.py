"""Ways to bring a built firmware onto its board: a small class each, chosen by the board."""

from mcutrain_host.flashing.choose import WAYS, choose
from mcutrain_host.flashing.job import Job, Way

__all__ = ["WAYS", "Job", "Way", "choose"]
