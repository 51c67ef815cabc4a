"""Which serial ports there are, and which of them have a board with our firmware."""

from __future__ import annotations

from mcutrain_host.client import Device, Patience
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError, NoAnswerError, PortError
from mcutrain_host.link import IN_USE, SerialLink
from mcutrain_host.protocol import Identity
from mcutrain_host.text import printable
from serial.tools import list_ports

BAUDS = (460_800, 921_600, 115_200)
"""Those of the boards' firmware."""
PROBE = Patience(answer_seconds=0.3, attempts=2)
"""Long enough for a board that waits; a board at work does not answer."""


@dataclass(frozen=True)
class Port:
    """A serial port of this computer. vendor, product: of a USB adapter."""

    path: str
    description: str
    vendor: int | None
    product: int | None
    serial_number: str | None


@dataclass(frozen=True)
class Probe:
    """Who answered at a port, or why nobody did."""

    identity: Identity | None
    reason: str = ""
    is_busy: bool = False
    """Whether another program has the port."""


def find_ports() -> list[Port]:
    """All serial ports, by path."""
    found = [
        Port(p.device, _foreign(p.description) or "", p.vid, p.pid, _foreign(p.serial_number))
        for p in list_ports.comports()
    ]
    return sorted(found, key=lambda port: port.path)


def probe(path: str) -> Probe:
    """Ask at all of BAUDS who is there."""
    try:
        device = connect(path, None, PROBE)
    except HostError as error:
        return Probe(None, str(error), IN_USE in str(error))
    try:
        return Probe(device.identity)
    finally:
        device.close()


def connect(path: str, baud: int | None, patience: Patience | None = None) -> Device:
    """A board that has said who it is. baud: None tries BAUDS. Raises HostError."""
    if baud is not None or "://" in path:
        device = Device(SerialLink(path, baud or BAUDS[0]), patience)
        try:
            device.identify()
        except BaseException:
            device.close()
            raise
        return device
    for candidate in BAUDS:
        link = SerialLink(path, candidate)
        try:
            Device(link, PROBE).identify()
        except NoAnswerError:
            continue
        finally:
            link.close()
        return connect(path, candidate, patience)
    raise PortError(
        path, f"nothing with mcutrain's firmware answered at {', '.join(map(str, BAUDS))} baud"
    )


def _foreign(text: str | None) -> str | None:
    """Return what a USB adapter says of itself."""
    return None if text in (None, "n/a") else printable(str(text))
