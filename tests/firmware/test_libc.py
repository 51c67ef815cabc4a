"""The functions that stand in for a libc's do what Python's bytes do."""

import ctypes
import random
import subprocess

import pytest

from mcutrain.target import FIRMWARE

FOLDER = FIRMWARE / "chips" / "cortex_m"
BUFFER_BYTES = 96


@pytest.fixture(scope="module", params=["-O0", "-O3"])
def libc(request, c_compilers, tmp_path_factory):
    library = tmp_path_factory.mktemp("libc") / "libc.so"
    flags = ["-std=c11", request.param, "-ffreestanding", "-shared", "-fPIC"]
    flags += ["-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{FOLDER / 'include'}"]
    command = [*c_compilers[0], *flags, str(FOLDER / "mct_libc.c"), "-o", str(library)]
    subprocess.run(command, check=True, timeout=300)
    made = ctypes.CDLL(str(library))
    for name in ("memcpy", "memmove", "memset"):
        getattr(made, name).restype = ctypes.c_void_p
    made.strlen.restype = ctypes.c_size_t
    return made


def at(buffer, offset):
    return ctypes.c_void_p(ctypes.addressof(buffer) + offset)


def spans(seed):
    """Offsets of two spans in the buffer, and how many bytes both have."""
    numbers = random.Random(seed)
    for _ in range(2000):
        count = numbers.randrange(BUFFER_BYTES // 2)
        a, b = (numbers.randrange(BUFFER_BYTES - count + 1) for _ in range(2))
        yield a, b, count


def filled(seed):
    return bytearray(random.Random(seed).randbytes(BUFFER_BYTES))


def test_memmove_copies_spans_that_overlap(libc):
    for to, start, count in spans(1):
        expected = filled(to)
        buffer = ctypes.create_string_buffer(bytes(expected), BUFFER_BYTES)
        expected[to : to + count] = expected[start : start + count]
        assert libc.memmove(at(buffer, to), at(buffer, start), count) == at(buffer, to).value
        assert buffer.raw == expected


def test_memcpy_copies_and_touches_nothing_else(libc):
    for to, start, count in spans(2):
        source = ctypes.create_string_buffer(bytes(filled(1)), BUFFER_BYTES)
        expected = filled(2)
        buffer = ctypes.create_string_buffer(bytes(expected), BUFFER_BYTES)
        expected[to : to + count] = filled(1)[start : start + count]
        assert libc.memcpy(at(buffer, to), at(source, start), count) == at(buffer, to).value
        assert buffer.raw == expected


def test_memset_fills_and_touches_nothing_else(libc):
    for to, value, count in spans(3):
        expected = filled(3)
        buffer = ctypes.create_string_buffer(bytes(expected), BUFFER_BYTES)
        expected[to : to + count] = bytes([value + 150 & 0xFF]) * count
        assert libc.memset(at(buffer, to), value + 150, count) == at(buffer, to).value
        assert buffer.raw == expected


def test_memcmp_orders_as_unsigned_bytes_do(libc):
    for a, b, count in spans(4):
        content = bytes(x & 0x81 for x in filled(4))
        buffer = ctypes.create_string_buffer(content, BUFFER_BYTES)
        x, y = content[a : a + count], content[b : b + count]
        sign = libc.memcmp(at(buffer, a), at(buffer, b), count)
        assert ((sign > 0) - (sign < 0)) == (x > y) - (x < y)


def test_strlen_counts_to_the_zero(libc):
    for count in range(20):
        assert libc.strlen(b"x" * count) == count
