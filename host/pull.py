"""What a board has learnt, brought to this computer. The board is only asked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from mcutrain_host import saved as saved_files
from mcutrain_host.client import Device, Progress
from mcutrain_host.errors import HostError, ModelMismatchError, StateFileError
from mcutrain_host.protocol import Firmware
from mcutrain_host.saved import SavedState


def pull(
    device: Device,
    firmware: Firmware,
    file: Path,
    progress: Progress | None = None,
    recipe: str = "",
) -> SavedState:
    """Write the board's trained state to a file, as a whole or not at all.

    firmware: the project's. recipe: of its step, as JSON, for the file. Raises ModelMismatchError
    if the board's is another, HostError if it has learnt nothing, StateFileError if the file holds
    more than the board, or cannot be written.
    """
    identity = device.identity
    name, per_update = device.link.name, identity.samples_per_update
    check_firmware(device, firmware)
    if not identity.is_complete:
        raise HostError(
            f"the board at {name} holds a state that was written in part; "
            "`mcutrain train --from FILE` writes a whole one"
        )
    if identity.position == 0 and not identity.imprints:
        raise HostError(f"the board at {name} has learnt from no sample yet")
    in_file = 0
    if file.exists():
        earlier = saved_files.read(file, firmware.model_hash, identity.saved_bytes)
        in_file = earlier.position(per_update)
    if in_file > identity.position:
        raise StateFileError(
            f"{file} has learnt from {in_file:,} samples, the board from {identity.position:,}; "
            "name another file with --output"
        )
    state = read_state(device, firmware, progress)
    saved_files.write(file, state.raw, recipe)
    return state


def check_firmware(device: Device, firmware: Firmware) -> None:
    """Raise ModelMismatchError unless the board has this project's model, scheme and layout.

    HostError if it says so, but also that something in it has another size.
    """
    identity, name = device.identity, device.link.name
    if identity.model_hash != firmware.model_hash:
        raise ModelMismatchError(
            f"the firmware on the board at {name}",
            identity.model_hash,
            firmware.model_hash,
            "flash the project's, or give the project of the board's",
        )
    said, wanted = asdict(identity.firmware), asdict(firmware)
    for field, ours in wanted.items():
        if said[field] != ours:
            raise HostError(
                f"the board at {name} says that it has the project's model, but {field} of "
                f"{said[field]:,} in the place of {ours:,}; flash the project's firmware"
            )


def read_state(
    device: Device,
    firmware: Firmware,
    progress: Progress | None = None,
    position: int | None = None,
) -> SavedState:
    """The trained state, checked. position: that it must have, by default the board's own.

    Raises StateFileError.
    """
    identity, name = device.identity, device.link.name
    expected = identity.position if position is None else position
    state = SavedState.parse(device.read_state(progress), f"what the board at {name} sent")
    sent = state.position(identity.samples_per_update)
    if state.model_hash != firmware.model_hash or sent != expected:
        raise StateFileError(
            f"the board at {name} sent a state of position {sent:,} in the place of "
            f"{expected:,}; is another program training it?"
        )
    return state
