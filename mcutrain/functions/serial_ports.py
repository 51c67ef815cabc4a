"""Where a board may be."""

from __future__ import annotations

from dataclasses import asdict

from mcutrain_host import ports as serial
from mcutrain_host.dataclass import dataclass
from mcutrain_host.finding import answer_of, ask_all
from mcutrain_host.ports import Port, Probe

from mcutrain.arguments import checked
from mcutrain.shown import Record, Shown


@dataclass(frozen=True, repr=False)
class SerialPorts(Shown):
    """The serial ports of this computer. answers: who is at each, if they were asked."""

    ports: tuple[Port, ...]
    answers: tuple[Probe, ...] = ()

    def summary(self) -> str:
        """Return a line that describes it."""
        if not self.answers:
            return f"{len(self.ports)} serial ports"
        boards = sum(answer.identity is not None for answer in self.answers)
        return f"{len(self.ports)} serial ports, {boards} boards that answer"

    def records(self) -> list[Record]:
        """A row for each port."""
        rows: list[Record] = [
            {"port": port.path, "description": port.description, "USB": _usb(port)}
            for port in self.ports
        ]
        for row, answer in zip(rows, self.answers, strict=False):
            row["board"] = answer_of(answer)
        return rows

    def to_dict(self) -> Record:
        """Return it as `mcutrain ports --json` prints it."""
        found: list[Record] = [asdict(port) for port in self.ports]
        for facts, answer in zip(found, self.answers, strict=False):
            who = answer.identity
            own = None if who is None else asdict(who) | {"model_hash": f"{who.model_hash:016x}"}
            facts |= {"board": own, "reason": answer.reason}
        return {"ports": found}


@checked
def ports(*, probe: bool = False) -> SerialPorts:
    """List the serial ports, and with probe the boards that answer.

    probe: ask each who is there. Opening a port restarts some boards, such as Arduinos.

    Raises ArgumentError.

    >>> ports(probe=True).to_pandas()
    """
    found = tuple(serial.find_ports())
    return SerialPorts(found, tuple(ask_all(found)) if probe else ())


def _usb(port: Port) -> str:
    """The numbers of a USB adapter; nothing of another port."""
    return f"{port.vendor:04x}:{port.product:04x}" if port.vendor and port.product else ""
