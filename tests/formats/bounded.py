"""Reads damaged files in a process of its own, whose memory may grow by a bounded amount only."""

from __future__ import annotations

import random
import resource
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import onnx

from mcutrain.errors import McutrainError

HUGE = (-1, 0, 7, 2**12, 2**16, 2**24, 2**31 - 1)
GROWTH_BYTES = 512 * 2**20
"""How much address space damaged files of a few KB may take, touched or not, beside a sound one."""


@dataclass(frozen=True)
class Outcome:
    """Of each file: the sentence that refuses it, "" if it was read.

    out_of_memory: files that asked for more than GROWTH_BYTES. grown_bytes: of memory in use.
    """

    sentences: tuple[str, ...]
    out_of_memory: tuple[int, ...]
    grown_bytes: int


def read_bounded(
    read: Callable[[Path], object], path: Path, sound: bytes, damaged: Sequence[bytes]
) -> Outcome:
    """Read the sound file, then the damaged ones, each written to the path."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_read_all, read, path, sound, damaged).result()


def _read_all(
    read: Callable[[Path], object], path: Path, sound: bytes, damaged: Sequence[bytes]
) -> Outcome:
    path.write_bytes(sound)
    read(path)
    before = _status_bytes("VmHWM")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status_bytes("VmSize") + GROWTH_BYTES, most))
    sentences, out_of_memory = [], []
    for i, content in enumerate(damaged):
        path.write_bytes(content)
        try:
            read(path)
            sentences.append("")
        except McutrainError as error:
            sentences.append(str(error))
            if _is_caused_by_memory(error):
                out_of_memory.append(i)
    grown = _status_bytes("VmHWM") - before
    return Outcome(tuple(sentences), tuple(out_of_memory), grown)


def _status_bytes(name: str) -> int:
    """A number of /proc/self/status. VmHWM: the most memory in use so far.

    Not getrusage's ru_maxrss, which a process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def _is_caused_by_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def with_huge_words(content: bytes, rng: random.Random, count: int) -> list[bytes]:
    """Copies of a .tflite file with one aligned 32-bit number each that is far from its own."""
    copies = []
    for _ in range(count):
        at = 4 * rng.randrange(2, len(content) // 4)
        word = struct.pack("<i", rng.choice(HUGE))
        copies.append(content[:at] + word + content[at + 4 :])
    return copies


def with_huge_numbers(content: bytes, rng: random.Random, count: int) -> list[bytes]:
    """Copies of an .onnx file with one length, attribute or constant integer each that is huge."""
    places = len(_numbers(onnx.ModelProto.FromString(content)))
    copies = []
    for _ in range(count):
        model = onnx.ModelProto.FromString(content)
        change = _numbers(model)[rng.randrange(places)]
        change(rng.choice((*HUGE, 2**40, 2**62)))
        copies.append(model.SerializeToString())
    return copies


def _numbers(model: onnx.ModelProto) -> list[Callable[[int], None]]:
    """Functions that set an integer of the model."""
    graph = model.graph
    dims = [d for v in (*graph.input, *graph.output) for d in v.type.tensor_type.shape.dim]
    attributes = [a for node in graph.node for a in node.attribute]
    lists = [*(t.dims for t in graph.initializer), *(a.ints for a in attributes)]
    found: list[Callable[[int], None]] = [partial(setattr, d, "dim_value") for d in dims]
    found += [partial(setattr, a, "i") for a in attributes if a.type == onnx.AttributeProto.INT]
    found += [partial(numbers.__setitem__, i) for numbers in lists for i in range(len(numbers))]
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT64:
            found += [partial(_set_raw, tensor, i) for i in range(len(tensor.raw_data) // 8)]
    return found


def _set_raw(tensor: onnx.TensorProto, index: int, value: int) -> None:
    raw = bytearray(tensor.raw_data)
    raw[8 * index : 8 * index + 8] = struct.pack("<q", value)
    tensor.raw_data = bytes(raw)
