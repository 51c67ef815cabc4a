"""What a board has heard and learnt in a lesson: its windows, and the raw samples they were of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from mcutrain_host.client import RAW_BYTES, Device
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError, RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Status

from mcutrain.frontends import Frontend
from mcutrain.functions.raw_samples import Raw, front_of

NO_RAW = (
    "only the windows of this lesson were recorded: some raw samples are gone, or the front "
    "end had heard something before them. Generate with a larger --keep-samples, or play a "
    "file"
)


@dataclass
class HeardLesson:
    """front: the project's. raw: samples of a stream, those so far; None where they are not known.

    begun: frames of the board before it. ends: of each window, frames of the stream at its end.
    """

    front: Frontend | None
    scale: float
    zero_point: int
    raw: Raw | None = None
    begun: int = 0
    windows: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    @staticmethod
    def of(project: BoardProject) -> HeardLesson:
        """Nothing yet."""
        x = project.manifest.input
        return HeardLesson(front_of(project), x.scale, x.zero_point)

    def take(self, device: Device, frame: int) -> None:
        """Take a window that was learnt, which ended with the frame of this count."""
        try:
            window = device.read_window(frame)
        except RefusedError as error:
            raise HostError(
                "the board has learnt a window but no longer has its frames, so it could not "
                "be recorded: generate with a longer --history"
            ) from error
        self.windows.append(window)
        self.ends.append((frame - self.begun) % 2**32)

    def forget(self) -> None:
        """Forget windows that no lesson has."""
        self.windows, self.ends = [], []

    def samples_of(self, frames: int) -> int:
        """Return how many raw samples so many frames of a stream are made of."""
        front = self.front
        return 0 if front is None else front.least_samples + (frames - 1) * front.hop

    def windows_of(self, ends: list[int]) -> list[bytes]:
        """The windows that end with so many frames of the raw samples, as the input has them."""
        if self.front is None or self.raw is None:
            return []
        shape, frames = self.front.input_shape[1:], self.front.output_shape[0]
        rows = self.front.stream().push(self.raw.reshape(-1, *shape))
        found = []
        for end in ends:
            if frames <= end <= len(rows):
                features = self.front.of_window(rows[end - frames : end])
                codes = self.front.codes(features, self.scale, self.zero_point)
                found.append(codes.tobytes())
        return found

    @property
    def clips(self) -> list[Raw]:
        """The raw samples of each window."""
        front, raw = self.front, self.raw
        if front is None or raw is None:
            return []
        firsts = [(end - front.output_shape[0]) * front.hop for end in self.ends]
        return [raw[first : first + front.input_shape[0]] for first in firsts]

    @property
    def is_whole(self) -> bool:
        """Whether the raw samples give all windows, to the bit."""
        return bool(self.windows) and self.windows_of(self.ends) == self.windows

    # ---- where raw samples come from ----

    def played(self, device: Device, sound: Raw | None) -> Iterator[None]:
        """Play a sound in pieces, with a look behind each."""
        if sound is None or self.front is None:
            return
        self.begun, self.raw = device.learnt().frames, sound
        raw = sound.astype("<i2").tobytes()
        size = RAW_BYTES * device.identity.sample_numbers
        most = -(-self.front.output_shape[0] // 4) * self.front.hop  # the board looks behind each
        piece_bytes = min((device.identity.max_body - 4) // size, most) * size
        for begin in range(0, len(raw), piece_bytes):
            device.hear(raw[begin : begin + piece_bytes], begin)
            yield

    def followed(self, device: Device) -> Iterator[None]:
        """Bring a new stream of a board that keeps raw samples, as they come; nothing of another.

        Ends where it went on before all was brought.
        """
        begun = _asked(device, None)
        found = b""
        while begun is not None and (piece := _brought(device, found, begun)) is not None:
            self.begun, self.raw, found = begun, _samples(piece, device), piece
            yield
        self.raw = None

    def look_back(self, device: Device) -> None:
        """Bring what a board has kept of its stream, or of the window that it has just learnt."""
        (frame,), begun = self.ends, _asked(device, 0)
        if begun is None or self.front is None:
            return
        end = (frame - begun) % 2**32
        first = (end - self.front.output_shape[0]) * self.front.hop
        for skipped, left in ((0, end), (first, self.front.output_shape[0])):
            raw = _brought(device, b"", begun, skipped)
            if raw is not None:
                self.raw, self.ends = _samples(raw, device), [left]
                return


def _asked(device: Device, first: int | None) -> int | None:
    """Frames before the stream, which None begins anew; None of a board that keeps no samples."""
    try:
        return (device.begin_stream() if first is None else device.read_samples(first, 0)).begun
    except RefusedError as error:
        if error.status != Status.COMMAND:
            raise
        return None


def _brought(device: Device, found: bytes, begun: int, skipped: int = 0) -> bytes | None:
    """The raw samples so far, behind those that were brought; None if they are gone."""
    size = RAW_BYTES * device.identity.sample_numbers
    try:
        while True:
            piece = device.read_samples(skipped + len(found) // size)
            if piece.begun != begun:
                return None
            if not piece.raw:
                return found
            found += piece.raw
    except RefusedError as error:
        if error.status != Status.NOT_KEPT:
            raise
        return None


def _samples(raw: bytes, device: Device) -> Raw:
    found, numbers = np.frombuffer(raw, "<i2").astype(np.int16), device.identity.sample_numbers
    return found if numbers == 1 else found.reshape(-1, numbers)
