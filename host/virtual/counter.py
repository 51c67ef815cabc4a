"""counter.c, compiled and loaded: counts instructions, and whose they are."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path

from mcutrain_host.dataclass import dataclass
from mcutrain_host.toolchain import shared_library
from mcutrain_host.virtual.image import Symbol

NO_TARGET = (1 << 64) - 1
NO_FUNCTION = (1 << 32) - 1
STOPPED_AT_TARGET, STOPPED_AT_FPU = 1, 2
ROWS = 1024


class Face(ctypes.Structure):
    """`counter_face` of counter.c."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("target", ctypes.c_uint64),
        ("block", ctypes.c_uint32),
        ("block_bytes", ctypes.c_uint32),
        ("stopped", ctypes.c_uint32),
        ("fpu_allowed", ctypes.c_uint32),
        ("fixed_begin", ctypes.c_uint32),
        ("fixed_end", ctypes.c_uint32),
    )
    count: int
    target: int
    block: int
    block_bytes: int
    stopped: int
    fpu_allowed: int
    fixed_begin: int
    fixed_end: int


class _Range(ctypes.Structure):
    _fields_ = (
        ("begin", ctypes.c_uint32),
        ("end", ctypes.c_uint32),
        ("is_model", ctypes.c_uint32),
        ("called_as", ctypes.c_uint32),
    )


class _Row(ctypes.Structure):
    _fields_ = (
        ("instructions", ctypes.c_uint64),
        ("calls", ctypes.c_uint64),
        ("function", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )
    instructions: int
    calls: int
    function: int


@dataclass(frozen=True)
class OperatorCount:
    """What the n-th call of a function of the model took, in total over `calls` times.

    root: the model's function that the firmware called, as mct_train. index: 0 is the model's own
    code, n its n-th call. function: what was called.
    """

    root: str
    index: int
    function: str
    instructions: int
    calls: int


class Counter:
    """Counts for one emulator."""

    def __init__(self, unicorn: ctypes.CDLL, functions: Sequence[Symbol], model: Iterable[str]):
        self._library = _load()
        api = (unicorn.uc_mem_read, unicorn.uc_reg_read, unicorn.uc_emu_stop)
        self._handle = self._library.mct_counter_new(
            *(ctypes.cast(f, ctypes.c_void_p) for f in api)
        )
        self.face = Face.from_address(self._handle)
        self.functions = tuple(functions)
        self._set_functions(frozenset(model))

    def __del__(self) -> None:
        if hasattr(self, "_handle"):  # the compiler may have failed
            self._library.mct_counter_free(self._handle)

    @property
    def callback(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Function and user data for uc_hook_add."""
        function = ctypes.cast(self._library.mct_counter_block, ctypes.c_void_p)
        return function, ctypes.c_void_p(self._handle)

    def uncount(self, engine: ctypes.c_void_p, pc: int) -> None:
        """The emulator stopped in the middle of a block."""
        self._library.mct_counter_uncount(self._handle, engine, pc)

    def flush(self) -> None:
        """The code changed."""
        self._library.mct_counter_flush(self._handle)

    def leave(self) -> None:
        """The core was reset, whatever it did."""
        self._library.mct_counter_leave(self._handle)

    def clear(self) -> None:
        """Forget whose instructions were counted, not how many."""
        self._library.mct_counter_clear(self._handle)

    def by_function(self) -> dict[str, int]:
        """Instructions by name, without zeros; "" is all code of unknown name."""
        counts = self._library.mct_counter_by_function(self._handle)
        total: dict[str, int] = {}
        for i, name in enumerate([f.name for f in self.functions] + [""]):
            if counts[i]:
                total[name] = total.get(name, 0) + counts[i]
        return total

    def operators(self) -> list[OperatorCount]:
        """By root and index."""
        return [
            OperatorCount(root, index, self._name(row.function), row.instructions, row.calls)
            for number, root in self._roots()
            for index, row in enumerate(self._library.mct_counter_rows(self._handle, number)[:ROWS])
            if row.calls
        ]

    def _roots(self) -> list[tuple[int, str]]:
        roots: list[tuple[int, str]] = []
        while True:
            function = self._library.mct_counter_root(self._handle, len(roots))
            if function == NO_FUNCTION:
                return roots
            roots.append((len(roots), self._name(function)))

    def _name(self, function: int) -> str:
        return self.functions[function].name if function < len(self.functions) else ""

    def _set_functions(self, model: frozenset[str]) -> None:
        """A veneer, which the linker puts before a far call, counts as what it leads to."""
        numbers = {f.name: i for i, f in enumerate(self.functions)}
        ranges = (_Range * max(len(self.functions), 1))()
        for i, f in enumerate(self.functions):
            plain = f.name.removeprefix("__").removesuffix("_veneer")
            in_model = f.name.partition(".")[0] in model
            ranges[i] = _Range(f.address, f.address + f.size_bytes, in_model, numbers.get(plain, i))
        done = self._library.mct_counter_functions(self._handle, ranges, len(self.functions))
        if not done:
            raise MemoryError


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(shared_library(Path(__file__).with_name("counter.c"))))
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    library.mct_counter_new.restype = pointer
    library.mct_counter_new.argtypes = [pointer] * 3
    library.mct_counter_free.argtypes = [pointer]
    library.mct_counter_free.restype = None
    library.mct_counter_functions.argtypes = [pointer, ctypes.POINTER(_Range), number]
    library.mct_counter_uncount.argtypes = [pointer, pointer, number]
    library.mct_counter_uncount.restype = None
    for name in ("mct_counter_flush", "mct_counter_clear", "mct_counter_leave"):
        function = getattr(library, name)
        function.argtypes, function.restype = [pointer], None
    library.mct_counter_by_function.argtypes = [pointer]
    library.mct_counter_by_function.restype = ctypes.POINTER(ctypes.c_uint64)
    library.mct_counter_rows.argtypes = [pointer, number]
    library.mct_counter_rows.restype = ctypes.POINTER(_Row)
    library.mct_counter_root.argtypes = [pointer, number]
    library.mct_counter_root.restype = number
    return library
