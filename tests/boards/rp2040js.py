"""A Pico in rp2040js, an emulator by others: over its UART, or over USB with a host of its own.

rp2040js.mjs beside this runs it; the package is a pinned one of npm, which `make` puts into .venv.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from mcutrain_host.errors import UnpluggedError
from mcutrain_host.virtual.rp2_rom import LOOKUP, function_addresses, rom_content

PACKAGE = "node/node_modules/rp2040js/dist/esm/index.js"
SCRIPT = Path(__file__).with_suffix(".mjs")
READ_MS = 30
"""Of the board's own time; a step of the networks that the tests take is far shorter."""
CONTROL_MS = 5_000
"""After which hosts give a control request up: Linux and Windows alike."""
STANDARD_IN, STANDARD_OUT, CLASS_IN, CLASS_OUT = 0x80, 0x00, 0xA1, 0x21
SET_ADDRESS, GET_DESCRIPTOR, SET_CONFIGURATION = 5, 6, 9
SET_LINE_CODING, GET_LINE_CODING, SET_LINES = 0x20, 0x21, 0x22
DEVICE, CONFIGURATION, TEXT, QUALIFIER = 1, 2, 3, 6
ADDRESS = 7
NUMBER = "E66118C4E3218B2A"
"""Of the flash chip."""


def needs_rp2040js() -> None:
    """Skip the test where node or the package is missing."""
    if shutil.which("node") is None:
        pytest.skip("no node: apt install nodejs npm")
    if not _package().is_file():
        pytest.skip("no rp2040js: make .venv/.node (it needs npm)")


def _package() -> Path:
    return Path(sys.prefix) / PACKAGE


class Stalled(Exception):  # noqa: N818  # what a host is told is no error of ours
    """The board refused a control request."""


class Rp2040js:
    """One board. line: uart or usb. A Link: what is read waits in the board's own time.

    chip: the flash chip answers commands; rp2040js' own model answers zeros.
    """

    name = "rp2040js"

    def __init__(self, folder: Path, line: str, seed: int = 1, chip: bool = True) -> None:
        self.line = line
        command = ["node", str(SCRIPT), _package().as_uri()]
        self._node = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask(
            "start",
            uf2=str(folder / "build/firmware.uf2"),
            rom=rom_content().hex(),
            functions=dict(function_addresses()),
            lookup=LOOKUP,
            number=NUMBER,
            line=line,
            seed=seed,
            chip=chip,
        )

    def ask(self, what: str, **values: Any) -> dict[str, Any]:
        """Do something, and wait for what comes of it."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps({"do": what, **values}) + "\n")
        self._node.stdin.flush()
        answer: dict[str, Any] = json.loads(self._node.stdout.readline() or '{"error": "it died"}')
        assert "error" not in answer, answer["error"]
        return answer

    @property
    def facts(self) -> dict[str, Any]:
        """Counts, and what was wrong."""
        return self.ask("facts")

    def __enter__(self) -> Rp2040js:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, t: TracebackType | None
    ) -> None:
        self._node.kill()
        self._node.communicate()

    # ------------------------------------------------------------------------------------ a Link

    def write(self, data: bytes) -> None:
        """For the board, when it runs next."""
        self.ask("write", bytes=data.hex())

    def read(self, seconds: float) -> bytes:
        """Let the board run until it sends something. Raises UnpluggedError without power."""
        answer = self.ask("read", ms=READ_MS)
        if answer["off"] and not answer["bytes"]:
            raise UnpluggedError(self.name)
        return bytes.fromhex(answer["bytes"])

    def clear(self) -> None:
        """Nothing is waiting that was not read."""

    def open(self) -> None:
        """Over USB: find the device, and open its port."""
        if self.line == "usb":
            assert self.ask("attach", ms=1000)["attached"]
            self.enumerate()
            self.open_port()

    def close(self) -> None:
        """Nothing to do."""

    # ----------------------------------------------------------------------------------- a USB host

    def control(
        self, kind: int, request: int, value: int = 0, index: int = 0, data: bytes | int = b""
    ) -> bytes:
        """A control transfer. data: to send, or how many bytes are wanted. Raises Stalled."""
        length = data if isinstance(data, int) else len(data)
        setup = struct.pack("<BBHHH", kind, request, value, index, length)
        out = b"" if isinstance(data, int) else data
        answer = self.ask("control", setup=setup.hex(), data=out.hex(), ms=CONTROL_MS)
        if answer["result"] == "stall":
            raise Stalled
        assert answer["result"] is not None, f"no answer to {setup.hex()}"
        return bytes.fromhex(answer["result"])

    def descriptor(self, kind: int, wanted: int, number: int = 0) -> bytes:
        return self.control(STANDARD_IN, GET_DESCRIPTOR, kind << 8 | number, 0, wanted)

    def reset_bus(self) -> None:
        assert self.ask("resetBus", ms=100)["taken"]

    def enumerate(self) -> None:
        """As hosts do it, some of whom reset the bus once more behind the first descriptor."""
        self.reset_bus()
        self.descriptor(DEVICE, 64)
        self.control(STANDARD_OUT, SET_ADDRESS, ADDRESS)
        assert self.descriptor(DEVICE, 18)[0] == 18
        size = struct.unpack_from("<H", self.descriptor(CONFIGURATION, 9), 2)[0]
        self.descriptor(CONFIGURATION, size)
        self.control(STANDARD_OUT, SET_CONFIGURATION, 1)

    def text(self, number: int) -> str:
        """A string descriptor in English."""
        return self.control(STANDARD_IN, GET_DESCRIPTOR, TEXT << 8 | number, 0x0409, 255)[
            2:
        ].decode("utf-16-le")

    def open_port(self, baud: int = 115_200) -> None:
        self.set_speed(baud)
        self.control(CLASS_OUT, SET_LINES, 3)

    def set_speed(self, baud: int) -> None:
        self.control(CLASS_OUT, SET_LINE_CODING, data=struct.pack("<IBBB", baud, 0, 0, 8))

    def close_port(self) -> None:
        self.control(CLASS_OUT, SET_LINES, 0)
