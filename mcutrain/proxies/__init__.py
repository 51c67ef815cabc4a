"""Cheaper fronts for easy samples: pruned, fitted to a network's own latent, and kept in a folder.

After PieBridge (SenSys 2024). Channels that only a front's own layers see can go. The rest is
fitted to the latents of the whole front, so that one tail serves all fronts.
"""

from mcutrain.proxies.folder import (
    LADDER_FILE,
    check_folder,
    drop_ladder,
    kept_ladder,
    read_facts,
    read_ladder,
    write_ladder,
)
from mcutrain.proxies.inner import Inner, inner_channels, keep_channels
from mcutrain.proxies.making import LadderSettings, Level, MadeLadder, make_ladder

__all__ = [
    "LADDER_FILE",
    "Inner",
    "LadderSettings",
    "Level",
    "MadeLadder",
    "check_folder",
    "drop_ladder",
    "inner_channels",
    "keep_channels",
    "kept_ladder",
    "make_ladder",
    "read_facts",
    "read_ladder",
    "write_ladder",
]
