"""A class that a board learns from a few samples, without training (docs/protocol.md, IMPRINT)."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain_host.client import Device, Progress
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.protocol import Firmware, Rate
from mcutrain_host.pull import check_firmware


@dataclass(frozen=True)
class NewClass:
    """What a board is to learn. samples: as its network reads them. known: classes before it.

    replays: steps of training on remembered samples that follow, at a rate.
    """

    samples: Sequence[bytes]
    label: int
    known: int
    replays: int = 0
    rate: Rate | None = None


@dataclass(frozen=True)
class ImprintReport:
    """What a board did. cycles: of the mean sample, and of the row; 0 where none are counted.

    save_number: of the save that holds the class; 0 on a board without slots.
    """

    sample_cycles: int
    row_cycles: int
    position: int
    save_number: int


def imprint(
    device: Device, firmware: Firmware, new: NewClass, progress: Progress = lambda done, of: None
) -> ImprintReport:
    """Have a board give a class its weights, replay what it remembers, and save.

    firmware: the project's. Raises ModelMismatchError if the board's is another, HostError.
    """
    check_firmware(device, firmware)
    name, identity = device.link.name, device.identity
    if not identity.imprints:
        raise HostError(
            f"the firmware on the board at {name} gives no class its weights from samples: "
            "generate the project with --imprint, and flash it"
        )
    if not identity.is_complete:
        raise HostError(
            f"the board at {name} holds a state that was written in part; "
            "`mcutrain train --from FILE` writes a whole one"
        )
    cycles = 0
    for index, sample in enumerate(new.samples):
        device.send_sample(sample)
        cycles += device.collect(index).cycles
        progress(index + 1, len(new.samples))
    row = device.imprint(new.label, new.known)
    for position in range(identity.position, identity.position + new.replays):
        device.replay(position, new.rate)
    number = device.save().number if identity.has_slots else 0
    position = identity.position + new.replays
    return ImprintReport(cycles // max(len(new.samples), 1), row.cycles, position, number)
