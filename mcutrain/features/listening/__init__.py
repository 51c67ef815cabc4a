"""Listening: a library takes raw samples, and its front end makes the model's input of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import McutrainError
from mcutrain.features.feature import Code, ProgramFeature
from mcutrain.target import Target

if TYPE_CHECKING:
    from mcutrain.frontends import Frontend

__all__ = [
    "FEATURE",
    "ListeningChoice",
    "check_listening",
    "frontend_of",
    "heard_bytes",
    "kept_samples",
    "listening_bytes",
]

SAMPLE_BYTES = NUMBER_BYTES = 2
SO_FAR_BYTES = 32
"""Of the queue's counters, and of the rows'. Every object has whole units of eight bytes, so that
linkers leave no gaps between them."""
TRIGGER_BYTES = 28
"""Of what a trigger counts, and of the window that it found."""
MOST_HISTORY = 65_535
MOST_ROW_BYTES = 504
"""Of a camera: what a response has room for behind 8 bytes."""
LEARN = "learn"
"""The application that learns lessons."""
TYPE_BYTES = {"int8_t": 1, "uint16_t": 2, "int16_t": 2, "int32_t": 4}


@dataclass(frozen=True, kw_only=True)
class ListeningChoice:
    """Fields of an Interface. listen: a board's own firmware takes raw samples, too. history:
    frames that a program keeps, of which windows are taken and in which a trigger looks; 0: those
    of a window, and no trigger. app: learn is firmware that infers on what it hears and learns when
    it is told; empty: it only answers. sensor: it hears the source of a virtual board.
    keep_samples: raw samples that such firmware keeps, to be read."""

    listen: bool = False
    history: int = 0
    app: str = ""
    sensor: bool = False
    keep_samples: int = 0


def frontend_of(training: TrainGraph) -> Frontend | None:
    """What makes samples of raw ones; None for nothing, and for a tail, which takes latents."""
    order = training.forward.input_order
    return None if order is None or training.is_tail else order.frontend


def listening_bytes(front: Frontend, history: int = 0, app: str = "", kept: int = 0) -> int:
    """Bytes of SRAM of what is heard: the front end, waiting samples, features and the window.

    history: frames that are kept, and a trigger; 0: those of a window, without. app: that counts
    frames. kept: raw samples that are kept, too.
    """
    frames, width = front.output_shape
    c, feature_bytes = front.c, TYPE_BYTES[front.c.feature]
    found = c.state_bytes + TYPE_BYTES[c.work_type] * c.work + queue_bytes(front)
    if front.takes_images:  # numbers of rows, and the image that arrives beside those kept
        found += NUMBER_BYTES * c.queue + (history + 1 if history else 0) * width
    else:
        rows_bytes = width if c.window is None else feature_bytes * c.window.kept
        found += feature_bytes * width + (history or frames) * rows_bytes
    found = _aligned(found) + SO_FAR_BYTES
    if kept:
        found += _aligned(SAMPLE_BYTES * front.channels * kept_samples(kept)) + 8
    if not history:
        return found
    last = _aligned(SAMPLE_BYTES * (0 if front.takes_images else front.channels) + 2, 4)
    return found + _aligned(TRIGGER_BYTES + last + 4 * history + (4 if app else 0))


def kept_samples(asked: int) -> int:
    """Return how many are kept: a power of two, that numbers modulo 2^32 find their place."""
    return 1 << (asked - 1).bit_length() if asked else 0


def _aligned(count: int, unit: int = 8) -> int:
    return -(-count // unit) * unit


def heard_bytes(training: TrainGraph, target: Target | None) -> int:
    """Bytes for what a program hears, besides arena and state; 0 on a board with its own firmware.

    The host of such a board computes features, and sends those; with `listen` the board counts it
    among what its firmware has anyway.
    """
    front = frontend_of(training)
    is_sent = target is not None and target.has_firmware
    return 0 if front is None or is_sent else listening_bytes(front)


def queue_bytes(front: Frontend) -> int:
    """Bytes of these that hold waiting samples, but for the numbers of a camera's rows."""
    return SAMPLE_BYTES * front.channels * front.c.queue


def _front(code: Code) -> Frontend:
    front = frontend_of(code.training)
    assert front is not None, "the program has a front end"
    return front


def check_listening(training: TrainGraph, told: Any, is_board: bool) -> None:
    """Raise McutrainError for what cannot listen, or does anyway. is_board: its own firmware."""
    listen = told.listen
    if listen and frontend_of(training) is None:
        raise McutrainError(
            "a board listens by a front end, which makes the model's input of raw samples, and "
            f"{'a tail takes latents' if training.is_tail else 'this model has none'}: "
            f"{'' if training.is_tail else 'give --frontend, or '}leave out --listen"
        )
    if listen and not is_board:
        raise McutrainError("a library takes raw samples anyway: leave out --listen")
    _check_history(frontend_of(training), told, is_board)
    front = frontend_of(training)
    if front is not None and front.takes_images:
        _check_camera(front, told)


def _check_camera(front: Frontend, told: Any) -> None:
    row_bytes = SAMPLE_BYTES * front.channels
    if told.listen and row_bytes > MOST_ROW_BYTES:
        raise McutrainError(
            f"a row of the camera has {row_bytes:,} bytes, but a request to a board takes "
            f"{MOST_ROW_BYTES} at most: have the camera send fewer columns, or make a library"
        )
    if 0 < told.keep_samples < 2 * front.hop:
        raise McutrainError(
            f"{told.keep_samples:,} rows of the camera hold no image beside the one that arrives: "
            f"give --keep-samples {2 * front.hop:,} or more"
        )


def _check(training: TrainGraph, told: Any, is_board: bool) -> None:
    """Raise McutrainError for an input that has other values than the front end gives."""
    front = frontend_of(training)
    check_listening(training, told, is_board)
    frames, width = (0, 0) if front is None else front.output_shape
    if front is not None and frames * width != training.input_type.elements:
        raise McutrainError(
            f"the front end {front.text} gives {frames} x {width} values, but the network takes "
            f"{training.input_type.elements}: give the front end that it was made for"
        )
    x = training.input_type
    if front is not None and not len(front.steps_of(x.scale, x.zero_point)[1]):
        raise McutrainError(
            f"the network's input, of scale {x.scale:g}, has one value for all that the front end "
            f"{front.text} gives: give the front end that it was made for"
        )


def _check_history(front: Frontend | None, told: Any, is_board: bool) -> None:
    history = told.history
    if not history:
        return
    if front is None or (is_board and not told.listen):
        missing = "--frontend" if front is None else "--listen"
        raise McutrainError(f"a history is of frames of raw samples: give {missing}, too")
    least = front.output_shape[0]
    if not least <= history <= MOST_HISTORY:
        raise McutrainError(
            f"a history of {history:,} frames, but a window has {least:,}: give {least:,} to "
            f"{MOST_HISTORY:,}, or leave out --history"
        )


def _code(code: Code, told: Any) -> Mapping[str, Any]:
    """What the templates need."""
    from mcutrain.frontends.trigger import TriggerParams  # few programs listen

    front = _front(code)
    frames, width = front.output_shape
    x = code.training.input_type
    first, steps = front.steps_of(x.scale, x.zero_point)
    sample_bytes = SAMPLE_BYTES * front.channels + (NUMBER_BYTES if front.takes_images else 0)
    return {
        "text": front.text,
        "c": front.c,
        "frames": frames,
        "width": width,
        "hop": front.hop,
        "rate_hz": front.rate_hz,
        "samples": front.input_shape[0],
        "reset": front.c.reset.format("listening.heard"),
        "channels": front.channels,
        "sample_bytes": sample_bytes,
        "feeds_rows": front.takes_images and not told.history,
        "pixel_codes": front.pixel_codes(x.scale, x.zero_point).tolist(),
        "queue": front.c.queue,
        "fixed_bytes": listening_bytes(front, told.history, told.app, told.keep_samples)
        - sample_bytes * front.c.queue,
        "history": told.history,
        "learns": told.app == LEARN,
        "kept": kept_samples(told.keep_samples),
        "trigger": TriggerParams.of(front),
        "first": first,
        "steps": steps.tolist(),
        "instructions": front.instructions,
    }


def _sources(code: Code, told: Any) -> tuple[str, ...]:
    own = _front(code).c.sources
    more = ("mct_trigger.c", "mct_trigger.h") if told.history else ()
    names = ("mct_samples.c", "mct_samples.h", *own, *more)
    decides = told.history > 0 and code.is_library
    learn = ("runtime/mct_learn.c", "runtime/mct_learn.h") if decides else ()
    return (*(f"frontends/{name}" for name in names), *learn)


def _is_on(code: Code, told: Any) -> bool:
    return (code.is_library or told.listen) and frontend_of(code.training) is not None


FEATURE = ProgramFeature(
    name="listening",
    is_on=_is_on,
    commands="hear",
    check=_check,
    code=_code,
    sources=_sources,
)
