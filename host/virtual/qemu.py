"""A board in QEMU, for the boards that QEMU knows: the same use as of VirtualBoard, another
emulator. It has no flash that is kept, and counts nothing."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from mcutrain_host.manifest import BoardDescription, BoardProject
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError

PROGRAM = "qemu-system-arm"
START_SECONDS = 10.0
STOP_SECONDS = 5.0
AWAKE_SECONDS = 0.1


class QemuBoard:
    """A QEMU process with the firmware, whose UART is a TCP port of this computer.

    with QemuBoard.from_folder(folder) as board:
        device = Device(SerialLink(board.port))
    """

    def __init__(self, spec: BoardDescription, firmware: Path) -> None:
        self.spec, self.firmware = spec, firmware
        self._tcp_port = self._monitor_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def from_folder(folder: Path) -> QemuBoard:
        """Make a board of a built project. Raises ProjectError, VirtualBoardError."""
        project = BoardProject.read(folder)
        if not project.board.emulate.qemu:
            raise VirtualBoardError(f"QEMU has no board like {project.board.name}")
        return QemuBoard(project.board, project.built_elf())

    @property
    def port(self) -> str:
        """The URL that pyserial opens."""
        return f"socket://127.0.0.1:{self._tcp_port}"

    @property
    def running(self) -> bool:
        """Does the process live?"""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """The command line, for the TCP port that was chosen."""
        path = shutil.which(PROGRAM)
        if path is None:
            raise VirtualBoardError(
                f"{PROGRAM} is not installed (on Debian: apt-get install qemu-system-arm)"
            )
        emulate = self.spec.emulate
        others = ["-serial", "null"] * (emulate.qemu_serial or 0)
        return [
            *(path, *emulate.qemu),
            *("-display", "none", "-nodefaults", *others),
            *("-monitor", f"tcp:127.0.0.1:{self._monitor_port},server=on,wait=off"),
            *("-serial", f"tcp:127.0.0.1:{self._tcp_port},server=on,wait=off,nodelay=on"),
            *("-kernel", str(self.firmware)),
        ]

    def start(self) -> None:
        """Let the board run. Raises VirtualBoardError if QEMU does not come up."""
        if self.running:
            return
        first, self._monitor_port = _free_ports(2)
        self._tcp_port = self._tcp_port or first
        self._process = subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=sys.platform != "win32",  # Ctrl-C is for us, who end it in order
        )
        self._await()
        threading.Thread(target=self._keep_awake, args=(self._process,), daemon=True).start()

    def power_cycle(self) -> None:
        """End the process and start another: RAM and whatever was saved are gone."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()

    close = stop

    def __enter__(self) -> QemuBoard:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, t: TracebackType | None
    ) -> None:
        died = self._process is not None and not self.running
        message = self._last_words() if died else ""
        self.stop()
        if died and value is None:
            raise BoardFault(f"QEMU ended by itself: {message}")

    def _await(self) -> None:
        """Until the port is taken. To connect would be one client more than some UARTs bear."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if not self.running:
                message = self._last_words()
                self.stop()
                raise VirtualBoardError(f"{PROGRAM} does not start: {message}")
            if _is_taken(self._tcp_port):
                return
            time.sleep(0.02)
        self.stop()
        raise VirtualBoardError(f"{PROGRAM} does not listen on port {self._tcp_port}")

    def _keep_awake(self, process: subprocess.Popen[bytes]) -> None:
        """Talk to QEMU's monitor now and then.

        QEMU asks a UART only once whether it takes the bytes that have come. The models of Arm's
        CMSDK UART do not tell it when they are switched on later. What a host sends during start-up
        would lie there until something else wakes QEMU up.
        """
        with contextlib.suppress(OSError):
            address = ("127.0.0.1", self._monitor_port)
            with socket.create_connection(address, START_SECONDS) as monitor:
                while process.poll() is None:
                    monitor.sendall(b"\n")
                    monitor.recv(4096)
                    time.sleep(AWAKE_SECONDS)

    def _last_words(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return "no message"
        lines = process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"


def _free_ports(count: int) -> list[int]:
    """TCP ports that nobody uses just now."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _is_taken(port: int) -> bool:
    """Whether somebody listens. Who begins to listen at this moment is not hindered by asking."""
    with socket.socket() as probe:
        if sys.platform != "win32":  # where the word means that two may listen
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
