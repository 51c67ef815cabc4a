"""Which board a command takes where no port is named: the only one that answers.

Where USB's description leaves only one port, it is taken without a word to it. Otherwise those that
may be meant are asked, all at once: opening a port restarts some boards, such as Arduinos.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mcutrain_host import ports
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.ports import Port, Probe
from mcutrain_host.protocol import Identity

NAME_ONE = "name one with --port"
NO_PORT = "there is no serial port; is the cable in, and does it carry data?"
MOST_AT_ONCE = 16


@dataclass(frozen=True)
class FoundPort:
    """The port that was taken, and why, as a sentence."""

    path: str
    why: str


def ask_all(found: Sequence[Port]) -> list[Probe]:
    """Who answers at each of the ports; all are asked at the same time."""
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return list(pool.map(lambda port: ports.probe(port.path), found))


def ports_that_fit(usb: Sequence[Sequence[int]]) -> list[Port]:
    """Return ports whose USB adapter is on a board of that kind.

    usb: vendor and product numbers, as board.toml has them.
    """
    kinds = {tuple(pair) for pair in usb}
    return [port for port in ports.find_ports() if (port.vendor, port.product) in kinds]


def find_board(
    board: str = "", usb: Sequence[Sequence[int]] = (), model_hash: int | None = None
) -> FoundPort:
    """Find the one board that is meant. Raises HostError with a list if it is none or several.

    board, usb: its name and its USB adapters. model_hash: of the firmware that it must have.
    """
    fitting = ports_that_fit(usb)
    if len(fitting) == 1:
        (port,) = fitting
        return FoundPort(port.path, f"{port.path} alone has the USB numbers of {board}: it is used")
    asked = fitting or ports.find_ports()
    if not asked:
        raise HostError(f"{NO_PORT} If the board is elsewhere, {NAME_ONE}, as socket://HOST:PORT")
    answers = list(zip(asked, ask_all(asked), strict=True))
    there = [(port, a.identity) for port, a in answers if a.identity is not None]
    meant = [(p, who) for p, who in there if model_hash in (None, who.model_hash)]
    if len(meant) == 1:
        ((port, who),) = meant
        return FoundPort(port.path, f"one board answers, at {port.path}: {told(who)}: it is used")
    raise HostError(_which(answers, len(meant), len(there), has_model=model_hash is not None))


def told(identity: Identity) -> str:
    """Return what a board says of itself, in few words."""
    return (
        f"{identity.board}, {identity.model}, scheme {identity.scheme}, "
        f"{identity.position:,} samples learnt"
    )


def answer_of(probe: Probe) -> str:
    """Return what was found at a port, in few words."""
    if probe.identity is not None:
        return told(probe.identity)
    return "in use by another program" if probe.is_busy else "no answer"


def _which(
    answers: Sequence[tuple[Port, Probe]], meant: int, there: int, *, has_model: bool
) -> str:
    """Say why none of the ports was taken, and what each is."""
    firmware = "the project's firmware" if has_model else "mcutrain's firmware"
    if meant:
        begin, end = f"{meant} boards with {firmware} answer", NAME_ONE
    elif there:
        begin = f"no board with {firmware} answers"
        end = "flash the project (`mcutrain flash`), or give the project of the board"
    else:
        begin = f"no board with {firmware} answers"
        end = f"flash one (`mcutrain flash`), end what uses its port, or {NAME_ONE}"
    each = "; ".join(f"{port.path}: {answer_of(answer)}" for port, answer in answers)
    return f"{begin} ({each}); {end}"
