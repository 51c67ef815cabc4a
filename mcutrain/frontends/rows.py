"""Rows of a motion sensor, or features of windows of them, as a front end of programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import ClassVar

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.frontends import fourier, motion
from mcutrain.frontends.frontend import (
    MOST_FRAMES,
    ROWS,
    Array,
    FeatureStream,
    Frontend,
    FrontendC,
    RawKind,
)
from mcutrain.frontends.motion import Motion, SensorAxis

STATE_BYTES = 44
"""Of mct_motion, without its rows."""
QUEUE_ROWS = 64
MOST_UNIT = 1 << 15
MOST_WINDOW_ROWS = 1 << 20
"""Of a window of frames: three hours at 100 Hz."""
SWITCHES = ("mean", "rms", "crossings")
DEFAULTS = {"window": 1, "unit": 1, "mult": 1}
C = """static const int16_t motion_mults[] = {{{mults}}};
static const uint8_t motion_shifts[] = {{{shifts}}};
{band_ends}static const mct_motion_params motion_params = {{
    .mults = motion_mults,
    .shifts = motion_shifts,
    .band_ends = {bands_place},
    .window = {window},
    .step = {step},
    .points = {points},
    .axes = {axes},
    .magnitude_axes = {magnitude},
    .gravity_shift = {gravity},
    .features = {features},
    .bands = {bands},
}};

typedef struct {{
    mct_motion motion;
    int16_t rows[{numbers}];
}} motion_heard;

static void motion_reset(motion_heard *heard)
{{
    mct_motion_reset(&heard->motion, &motion_params);
}}

static uint32_t motion_push(motion_heard *heard, const int16_t *samples, uint32_t count,
                            int32_t *work, int16_t *features, int32_t *is_frame)
{{
    uint32_t taken = 0;
    *is_frame = 0;
    while (taken < count && !*is_frame) {{
        const int16_t *row = samples + taken * {axes}u;
        *is_frame = mct_motion_push(&heard->motion, &motion_params, heard->rows, row);
        taken++;
    }}
    if (*is_frame) {{
        {compute}
    }}
    return taken;
}}
"""
COMPUTE = "mct_motion_features(&heard->motion, &motion_params, heard->rows, work, features);"
COPY = """(void)work;
        memcpy(features, heard->rows, sizeof heard->rows);"""


class RowStream:
    """Frames of rows that come in pieces."""

    def __init__(self, how: Motion) -> None:
        self._windows = motion.MotionWindows(how)

    def push(self, piece: npt.ArrayLike) -> Array:
        """All frames that end in this piece."""
        how, windows = self._windows.motion, self._windows.push(piece)
        return motion.features(how, windows) if how.features else windows[:, 0]


@dataclass(frozen=True)
class MotionFrontend(Frontend):
    """Frames of int16 rows of `axes` numbers, see `mcutrain.frontends.motion`.

    frames: of what the model takes. window, step: rows of a frame, and from one to the next; a
    frame without features is a row. gravity: k of a filter of 2^k rows that removes it; or 0.
    magnitude: of the first 2 or 3 axes, one more channel; 0 for none. mean, rms, crossings: 1 for
    these features of each channel. bands: how many logarithms of power, of bins 1, 2 to 3, 4 to 7
    and so on. mult, shift: an axis is multiplied by mult / 2^shift first. unit: the number that the
    model takes as 1. rate: rows a second; 0 if it is not said. Raises DataError.
    """

    axes: int
    frames: int
    window: int
    step: int
    gravity: int
    magnitude: int
    mean: int
    rms: int
    crossings: int
    bands: int
    mult: int
    shift: int
    unit: int
    rate: int

    kind: ClassVar[str] = "motion"
    RAW: ClassVar[RawKind] = ROWS
    FEATURE_SCALE: ClassVar[float] = 1.0
    RANGE: ClassVar[tuple[int, int]] = (motion.LOWEST, motion.HIGHEST)

    def __post_init__(self) -> None:
        self.check_options(
            {
                "frames": (1, MOST_FRAMES),
                "axes": (1, motion.MOST_AXES),
                "unit": (1, MOST_UNIT),
                "bands": (0, 8),
                "rate": (0, 1_000_000),
                **dict.fromkeys(SWITCHES, (0, 1)),
            }
        )
        try:
            how = self.motion
        except ValueError as error:
            raise DataError(f"motion: {error}") from error
        if self.input_shape[0] > MOST_WINDOW_ROWS:
            raise DataError(
                f"motion: {self.frames} frames every {self.step} rows are {self.input_shape[0]:,} "
                f"rows, but a window has at most {MOST_WINDOW_ROWS:,}: give fewer frames, or a "
                "smaller step"
            )
        if not how.features and (self.window, self.step) != (1, 1):
            raise DataError(
                f"motion: window is {self.window} and step {self.step}, but a frame without "
                f"features is a row: leave both out, or ask for {', '.join(SWITCHES)} or bands"
            )

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> MotionFrontend:
        """With the model's frames and axes; what is left out is 0, or what changes nothing."""
        found = dict.fromkeys((f.name for f in fields(cls)), 0) | DEFAULTS | dict(options)
        found["step"] = options.get("step", found["window"])
        of_a_channel = sum(found[name] for name in SWITCHES) + found["bands"] or 1
        more = int(found["magnitude"] > 0)
        lengths = None if input_shape is None else tuple(n for n in input_shape if n != 1)
        if lengths is not None and len(lengths) == 2:
            found["frames"] = options.get("frames", lengths[0])
            found["axes"] = options.get("axes", max(lengths[1] // of_a_channel - more, 1))
        elif lengths is not None and "axes" in options:
            width = of_a_channel * (found["axes"] + more)
            found["frames"] = options.get("frames", math.prod(lengths) // max(width, 1))
        for name in ("axes", "frames"):
            if not found[name] and name not in options:
                raise DataError(f"motion: say {name}, as motion:axes=3,frames=128")
        made = cls(**found)
        frames, width = made.output_shape
        wanted = tuple(n for n in (frames, width) if n != 1)
        if lengths is not None and lengths not in (wanted, (frames * width,)):
            raise DataError(
                f"the front end motion makes {frames} frames of {width} numbers of {made.axes} "
                f"axes, but the model takes {lengths}: change its options, or give another model"
            )
        return made

    @cached_property
    def motion(self) -> Motion:
        """What the kernel is told. Raises ValueError."""
        return Motion(
            (SensorAxis(self.mult, self.shift),) * self.axes,
            self.window,
            self.step,
            self.gravity,
            self.magnitude,
            bool(self.mean),
            bool(self.rms),
            bool(self.crossings),
            tuple(2 << band for band in range(self.bands)),
        )

    @property
    def feature_scale(self) -> float:
        """By the unit."""
        return 1 / self.unit

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Rows of a window, and axes."""
        return self.window + (self.frames - 1) * self.step, self.axes

    @property
    def output_shape(self) -> tuple[int, int]:
        """Frames, and features or channels."""
        return self.frames, self.motion.features or self.motion.channels

    @property
    def hop(self) -> int:
        """Rows from one frame to the next."""
        return self.step

    @property
    def rate_hz(self) -> int:
        """Rows a second; 0 if it is not said."""
        return self.rate

    @property
    def what(self) -> str:
        """Rows in words."""
        return f"int16, rows of {self.axes} axes"

    def stream(self) -> FeatureStream:
        """A new stream."""
        return RowStream(self.motion)

    @property
    def work(self) -> Mapping[str, int]:
        """Rows and their numbers; of features, channels, their numbers, bins and bands."""
        how = self.motion
        channels = how.channels if how.features else 0
        banded = channels if how.band_ends else 0
        return {
            "frames": 1,
            "rows": self.step,
            "axes": self.step * self.axes,
            "gravity": self.step * self.axes * (self.gravity > 0),
            "magnitudes": self.step * (self.magnitude > 0),
            "features": self.output_shape[1],
            "channels": channels,
            "numbers": channels * self.window,
            "roots": channels * self.rms,
            "windowed": banded * self.window,
            **{f"transforms of {n}": banded * (how.points == n) for n in fourier.LENGTHS},
            "bins": banded * ((1 << self.bands) - 1),
            "bands": banded * self.bands,
        }

    @property
    def c(self) -> FrontendC:
        """firmware/frontends/mct_motion.c."""
        how = self.motion
        rows_bytes = 2 * how.window * how.channels
        return FrontendC(
            sources=("mct_motion.c", "mct_motion.h", *fourier.SOURCES),
            header="mct_motion.h",
            state="motion_heard",
            state_bytes=-(-(STATE_BYTES + rows_bytes) // 4) * 4,
            reset="motion_reset(&{})",
            push="motion_push",
            work=how.points if how.band_ends else 0,
            work_type="int32_t",
            flash_bytes={},
            definitions=self._definitions(),
            queue=QUEUE_ROWS,
        )

    def _definitions(self) -> str:
        how = self.motion
        ends = ", ".join(map(str, how.band_ends))
        return C.format(
            mults=", ".join([str(self.mult)] * self.axes),
            shifts=", ".join([str(self.shift)] * self.axes),
            band_ends=f"static const uint16_t motion_band_ends[] = {{{ends}}};\n" if ends else "",
            bands_place="motion_band_ends" if ends else "NULL",
            window=self.window,
            step=self.step,
            points=how.points,
            axes=self.axes,
            magnitude=self.magnitude,
            gravity=self.gravity,
            features=self.mean + 2 * self.rms + 4 * self.crossings,
            bands=self.bands,
            numbers=how.window * how.channels,
            compute=COMPUTE if how.features else COPY,
        )
