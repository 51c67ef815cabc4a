"""firmware/runtime/mct_stream.c asks kernels for the rows that the plan counts on."""

from __future__ import annotations

import ctypes
import subprocess
from ctypes import POINTER, Structure, c_bool, c_int8, c_int16, c_int32, c_uint8, c_uint16, c_uint32
from pathlib import Path

import mcutrain_firmware
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcutrain.ir.op import Rows
from mcutrain.memplan.stream import RowFlow, rooms
from mcutrain.simulation.build import WARNINGS
from tests.compiled import that_differ

RUNTIME = Path(mcutrain_firmware.__file__).parent / "runtime"
ROW_BYTES, PROGRESS_BYTES = 2, 8


class Strip(Structure):
    """mct_strip."""

    _fields_ = (
        ("x", POINTER(c_int8) * 8),
        ("y", POINTER(c_int8)),
        ("x_rows", c_int32),
        ("y_rows", c_int32),
        ("pad_top", c_int32),
    )


Compute = ctypes.CFUNCTYPE(None, POINTER(Strip))


class StreamTensor(Structure):
    """mct_stream_tensor."""

    _fields_ = (
        ("place", c_uint32),
        ("row_bytes", c_uint32),
        ("rows", c_int16),
        ("room", c_int16),
        ("first_reader", c_uint16),
        ("reader_count", c_uint16),
    )


class StreamStage(Structure):
    """mct_stage."""

    _fields_ = (
        ("compute", Compute),
        *((name, c_int16) for name in ("span", "stride", "pad", "strip")),
        *((name, c_uint16) for name in ("output", "first_input", "input_count")),
    )


class StreamSegment(Structure):
    """mct_segment."""

    _fields_ = (
        ("tensors", POINTER(StreamTensor)),
        ("stages", POINTER(StreamStage)),
        ("links", POINTER(c_uint16)),
        *((name, c_uint16) for name in ("tensor_count", "stage_count", "source_count")),
        ("progress", c_uint32),
    )


@pytest.fixture(scope="module")
def libraries(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> list[ctypes.CDLL]:
    """mct_stream.c as every compiler has it."""
    folder = tmp_path_factory.mktemp("stream")
    loaded = []
    for i, command in enumerate(that_differ(c_compilers)):
        target = folder / f"{i}.so"
        flags = ["-std=c11", "-O2", "-ftrapv", *WARNINGS, "-shared", "-fPIC"]
        arguments = [*command, *flags, "-o", str(target), str(RUNTIME / "mct_stream.c")]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        loaded.append(ctypes.CDLL(str(target)))
    return loaded


def asked_for(
    library: ctypes.CDLL, rows: Rows, strip: int, heights: tuple[int, int], room: int
) -> list[tuple[int, int, int, bytes]]:
    """(rows of x, of y, padding above, x's rows) of each call. room: of the fed input, 0: none is.

    Row r of x holds the bytes r + 1.
    """
    x_rows, y_rows = heights
    x_room = room or x_rows
    y_place = PROGRESS_BYTES + x_room * ROW_BYTES
    arena = (c_uint8 * (y_place + y_rows * ROW_BYTES))()
    image = bytes(row + 1 for row in range(x_rows) for _ in range(ROW_BYTES))
    found = []

    def compute(strip: ctypes._Pointer[Strip]) -> None:
        s = strip.contents
        address = ctypes.cast(s.x[0], ctypes.c_void_p).value or 0
        first = address - ctypes.addressof(arena) - PROGRESS_BYTES
        assert 0 <= first <= first + s.x_rows * ROW_BYTES <= x_room * ROW_BYTES
        y_address = ctypes.cast(s.y, ctypes.c_void_p).value or 0
        assert address != y_address, "a kernel would take the strip for one in place"
        made = sum(count for _, count, *_ in found)
        assert y_address - ctypes.addressof(arena) == y_place + made * ROW_BYTES
        read = ctypes.string_at(address, max(s.x_rows, 0) * ROW_BYTES)
        found.append((s.x_rows, s.y_rows, s.pad_top, read))

    tensors = (StreamTensor * 2)(
        StreamTensor(PROGRESS_BYTES, ROW_BYTES, x_rows, x_room, 0, 1),
        StreamTensor(y_place, ROW_BYTES, y_rows, y_rows, 0, 0),
    )
    stage = StreamStage(Compute(compute), rows.span, rows.stride, rows.pad, strip, 1, 1, 1)
    links = (c_uint16 * 2)(0, 0)  # who reads x, and what is read
    segment = StreamSegment(tensors, (StreamStage * 1)(stage), links, 2, 1, 1, 0)
    if room:
        library.mct_segment_start(ctypes.byref(segment), arena, c_bool(True))
        fed = (c_int8 * len(image)).from_buffer_copy(image)
        library.mct_segment_feed(
            ctypes.byref(segment), arena, c_uint32(0), fed, c_uint32(len(image))
        )
    else:
        ctypes.memmove(ctypes.addressof(arena) + PROGRESS_BYTES, image, len(image))
        library.mct_segment_compute(ctypes.byref(segment), arena)
    return found


@settings(suppress_health_check=list(HealthCheck))
@given(
    span=st.integers(1, 5),
    stride=st.integers(1, 3),
    pad=st.integers(-3, 6),
    strip=st.integers(1, 4),
    heights=st.tuples(st.integers(1, 6), st.integers(1, 12)),
    is_fed=st.booleans(),
)
@example(span=1, stride=1, pad=2, strip=2, heights=(3, 9), is_fed=False)  # above, inside, below
@example(span=1, stride=1, pad=2, strip=2, heights=(3, 9), is_fed=True)
@example(span=1, stride=1, pad=-3, strip=1, heights=(2, 2), is_fed=False)  # y begins behind x
def test_a_strip_has_the_rows_of_the_image_and_never_fewer_than_none(
    libraries: list[ctypes.CDLL],
    span: int,
    stride: int,
    pad: int,
    strip: int,
    heights: tuple[int, int],
    is_fed: bool,
) -> None:
    """Also where it lies wholly in the padding above the image or below it."""
    x_rows, y_rows = heights
    rows = Rows((0,), span, stride, pad)
    expected = []
    for first in range(0, y_rows, strip):
        count = min(strip, y_rows - first)
        begin, end = rows.needed(first, count, x_rows)
        read = bytes(row + 1 for row in range(begin, end) for _ in range(ROW_BYTES))
        expected.append((end - begin, count, max(pad - first * stride, 0), read))
    assert min(of_x for of_x, *_ in expected) >= 0
    room = rooms(RowFlow(((rows, strip),), heights, ((0,),), ((0,), ()), is_fed))[0]
    for library in libraries:
        assert asked_for(library, rows, strip, heights, room if is_fed else 0) == expected
