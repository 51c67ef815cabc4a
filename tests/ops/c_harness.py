"""Calls kernels on drawn samples: the C is made by the generator's own code, run by harness.c."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import mcutrain_firmware
import numpy as np
import numpy.typing as npt
from mcutrain_host.cache import cache_folder, keep
from mcutrain_host.includes import missing, needed
from mcutrain_host.toolchain import ZIG, compiler_identity

from mcutrain.codegen.c_text import CTYPES
from mcutrain.codegen.isa import chain
from mcutrain.codegen.program import Declarations
from mcutrain.codegen.templates import render
from mcutrain.ir.op import KernelCall, Operand, Param
from mcutrain.simulation.build import WARNINGS
from mcutrain.target import PORTABLE
from tests.ops.cases import CASES, Sample
from tests.ops.drawing import Outline, SeededSource, Source

Array = npt.NDArray[Any]

FIRMWARE = Path(mcutrain_firmware.__file__).parent
HARNESS = Path(__file__).with_name("harness.c")
VECTORS = FIRMWARE / "isa" / "host" / "mct_simd.h"
THREADS = "mct_threads"
"""Knows no vectors, and wants its own definitions before the system's headers."""
WORTH_PRECOMPILING = 5
"""Host bodies to compile: compilers take longer to read a megabyte of intrinsics than the rest."""
WORTH_KEEPING = 12
"""Calls in a program; those that Hypothesis draws are fewer, and others each time."""
MOST_FRAME_BYTES = 1024 * int(
    re.findall(
        r"#define MCT_MOST_FRAME_BYTES \((\d+) \* 1024\)",
        (FIRMWARE / "isa" / "host" / "mct_threads.h").read_text(encoding="utf-8"),
    )[0]
)
LIMITED = (f"-Wframe-larger-than={MOST_FRAME_BYTES}",)
"""With warnings as errors: no function has a larger frame."""
NATIVE = ("-O3", "-march=native", *LIMITED)
"""Host bodies as users have them: objects that tests of several packages share."""
GARBAGE = 0xA5
"""What outputs and scratch hold before a call: kernels must not rely on zeros."""

INCLUDE = "-include"
"""A flag with the path in it: of a header that host bodies begin with."""
OF_BODIES = ("-O", "-m", "-Wframe-larger-than=", "-DPLAIN", INCLUDE)
"""Flags that calls of kernels do without."""

DTYPES = {"exponent": "int8", "step": "uint32"}
ALIGNMENT = {"exponent": 1, "step": 4, "int8": 1, "uint8": 1, "int16": 2, "int32": 4}
SCRATCH_ALIGNMENT = 8


def kernel_call(sample: Sample) -> KernelCall:
    return sample.call


def updated_inputs(sample: Sample) -> dict[int, int]:
    """Output → the input it takes over, as positive indices."""
    return {o: i % len(sample.types) for o, i in sample.op.updates.items()}


def is_computed_by(functions: Collection[str], sample: Sample) -> bool:
    """Whether a node like the sample's calls one of the functions."""
    return kernel_call(sample).function in functions


def samples_of(
    functions: Collection[str], draws: Iterable[Callable[[Source], Sample]], seeds: int, most: int
) -> tuple[Sample, ...]:
    """Of each way to draw, at most so many samples of each of these functions.

    Which function a seed leads to is known from its outline; of most seeds nothing else is needed.
    """
    kept: dict[tuple[int, str], list[Sample]] = {}
    for way, draw in enumerate(draws):
        for seed in range(seeds):
            function = _function_of(draw, seed)
            found = kept.setdefault((way, function), []) if function in functions else None
            if found is not None and len(found) < most:
                sample = draw(SeededSource(seed))
                assert kernel_call(sample).function == function
                found.append(sample)
    return tuple(sample for found in kept.values() for sample in found)


@cache
def _function_of(draw: Callable[[Source], Sample], seed: int) -> str:
    """The kernel of a seed's sample; modules of tests draw in the same ways."""
    return kernel_call(draw(Outline(seed))).function


SMALL = tuple(case.draw for case in CASES if case.name != "reshape")
"""Ways to draw small samples, of all operators that call a kernel."""


def plain_body(path: Path) -> Path:
    """What a file in kernels/<operator>/<isa>/ stands in for."""
    return path.parent.parent / path.name


def faster_bodies(isa: str) -> list[Path]:
    """An instruction set's files that stand in for plain ones."""
    found = FIRMWARE.glob(f"kernels/*/{isa}/*.c")
    return sorted(path for path in found if plain_body(path).is_file())


def shared_sources(isa: str) -> list[Path]:
    """An instruction set's other C files, which its bodies call."""
    found = [*FIRMWARE.glob(f"kernels/*/{isa}/*.c"), *FIRMWARE.glob(f"isa/{isa}/*.c")]
    return sorted(set(found) - set(faster_bodies(isa)))


def body_of(path: Path, isa: str) -> Path:
    """What stands in for a plain body on an instruction set, as `isa_bodies` finds it."""
    faster = (path.parent / folder / path.name for folder in chain(isa))
    return next((found for found in faster if found.is_file()), path)


@lru_cache(maxsize=1)
def include_flags() -> tuple[str, ...]:
    """Of every folder with headers."""
    return tuple(sorted({f"-I{path.parent}" for path in FIRMWARE.rglob("*.h")}))


@lru_cache(maxsize=1)
def headers() -> Mapping[str, str]:
    """The firmware's headers, by name."""
    paths = sorted(FIRMWARE.rglob("*.h"))
    return {str(path.relative_to(FIRMWARE)): path.read_text("utf-8") for path in paths}


@lru_cache(maxsize=4096)
def _with_headers(name: str, text: str) -> str:
    """A digest of a C file and of all headers that it includes, directly or not."""
    files = {**headers(), name: text}
    unit = needed(files)[name]
    assert not missing(unit, files), f"{name} includes {missing(unit, files)}"
    return hashlib.sha256(repr([(other, files[other]) for other in unit]).encode()).hexdigest()


def _place(facts: tuple[object, ...]) -> Path:
    """Where an object is kept, named by all that decides it."""
    return cache_folder() / "objects" / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}.o"


@dataclass(frozen=True)
class Toolchain:
    """A compiler with its flags, and the kernels it has compiled. emulator: what runs them."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    folder: Path
    emulator: tuple[str, ...] = ()

    @staticmethod
    def make(
        command: Sequence[str], flags: Sequence[str], folder: Path, host: bool = False
    ) -> Toolchain:
        """Compile all kernels, the runtime and the harness, warnings as errors.

        host: with the faster bodies of hosts where there are any, else with the portable ones.
        """
        made = Toolchain(tuple(command), tuple(flags), folder)
        kernels = sorted(FIRMWARE.glob("kernels/*/*.c"))
        chosen = [body_of(path, "host" if host else PORTABLE) for path in kernels]
        sets = (PORTABLE, "host") if host else (PORTABLE,)
        shared = [path for isa in sets for path in shared_sources(isa)]
        made.compile_objects([*chosen, *shared, *FIRMWARE.glob("runtime/*.c"), HARNESS])
        return made

    def compile_objects(self, sources: Sequence[Path]) -> None:
        """One for each source; what some test has compiled alike is copied."""
        places = {source: self.place(source.name, source.read_text()) for source in sources}
        missing = [source for source in sources if not places[source].is_file()]
        bodies = {s for s in missing if s.parent.name == "host" and s.stem != THREADS}
        precompiled = len(bodies) >= WORTH_PRECOMPILING and self.command != ZIG
        if precompiled:
            (self.folder / VECTORS.name).symlink_to(VECTORS)
            self.compile("-x", "c-header", VECTORS.name, "-o", f"{VECTORS.name}.gch")
        others = replace(self, flags=tuple(f for f in self.flags if f not in self.included))
        first = (INCLUDE, VECTORS.name) if precompiled else ()
        of_bodies = others if precompiled else self  # what was precompiled has all that is included
        for source, kept in places.items():
            made = self.folder / f"{source.stem}.o"
            if source in missing:
                compile_c = str(source), "-c", "-o", str(made)
                if source in bodies:
                    of_bodies.compile(*first, *compile_c)
                else:
                    others.compile(*compile_c)
                keep(made, kept)
            elif not made.exists():
                made.symlink_to(kept)

    def place(self, name: str, text: str) -> Path:
        """Where the object of a C file is kept."""
        first = "".join(Path(flag.removeprefix(INCLUDE)).read_text() for flag in self.included)
        elsewhere = [flag for flag in self.flags if flag.startswith("-I/")]
        folders = [Path(flag.removeprefix("-I")) for flag in elsewhere]
        read = [path.read_text() for folder in folders for path in sorted(folder.glob("*.h"))]
        alike = tuple(f for f in self.flags if f not in (*self.included, *elsewhere))
        identity = compiler_identity(self.command)
        return _place((identity, WARNINGS, alike, read, _with_headers(name, first + text)))

    @property
    def included(self) -> tuple[str, ...]:
        """The flags that name a header which host bodies begin with."""
        return tuple(flag for flag in self.flags if flag.startswith(INCLUDE))

    def merge(self) -> None:
        """All objects into one: linking it takes a third of the time, and many runs link."""
        objects = sorted(self.folder.glob("*.o"))
        self.compile("-r", "-o", "merged", *map(str, objects))
        for path in objects:
            path.unlink()
        (self.folder / "merged").rename(self.folder / "merged.o")

    def compile(self, *arguments: str) -> None:
        command = [*self.command, "-std=c11", *WARNINGS, *self.flags, *include_flags(), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(self.command)}: {done.stderr[:4000]}"

    def run(
        self,
        samples: Sequence[Sample],
        in_place: int | None = None,
        among: Sequence[Sample] = (),
    ) -> list[dict[str, Array]]:
        """The value of every operand after each sample's call: "input 0" … "output 0" …

        in_place: which of the inputs that it may overwrite an output takes the place of. among:
        more samples, whose program serves these, too.
        Raises AssertionError if a call wrote outside its buffers.
        """
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True)
        known = tuple(among or samples)
        self._link(self._calls(_source(known)))
        blocks = _runs(tuple(samples), in_place, known)
        (folder / "runs").write_bytes(
            np.int32(len(blocks)).tobytes() + b"".join(b.encoded() for b in blocks)
        )
        command = [*self.emulator, "./harness", "runs", "results"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[:4000]
        raw = (folder / "results").read_bytes()
        results, position = [], 0
        for block in blocks:
            values, position = block.decoded(raw, position)
            results.append(values)
        assert position == len(raw)
        return results

    def _link(self, calls: Path) -> None:
        """Make the program of these calls, unless it is the one that was made last."""
        if _LINKED.get(self.folder) != calls:
            objects = sorted(str(p) for p in self.folder.glob("*.o"))
            self.compile(str(calls), *objects, "-o", "run/harness")
            _LINKED[self.folder] = calls

    def _calls(self, source: str) -> Path:
        """The calls of kernels as an object, which all builds of a compiler share.

        Those of many samples, which are the same in each run of the tests, are kept for the next.
        """
        flags = tuple(f for f in self.flags if not f.startswith(OF_BODIES))
        key = (self.command, flags, source)
        if key not in _CALLS:
            alike = replace(self, flags=(*flags, "-O0"))
            kept = alike.place("calls.c", source)
            if not kept.is_file():
                made = self.folder / "run" / f"calls{len(_CALLS)}.c"
                made.write_text(source)
                compiled = made.with_suffix(".o")
                alike.compile(str(made), "-c", "-o", str(compiled))
                if source.count("static void call_") >= WORTH_KEEPING:
                    keep(compiled, kept)
                kept = compiled
            _CALLS[key] = kept
        return _CALLS[key]


_CALLS: dict[tuple[tuple[str, ...], tuple[str, ...], str], Path] = {}
"""What this process has compiled, by compiler, flags and text."""
_LINKED: dict[Path, Path] = {}
"""The calls that the program in a toolchain's folder makes."""


@lru_cache(maxsize=8)
def _source(samples: tuple[Sample, ...]) -> str:
    declarations = Declarations()
    functions = []
    calls = [kernel_call(sample) for sample in samples]
    for i, (sample, call) in enumerate(zip(samples, calls, strict=True)):
        code = " ".join(_statements(declarations, sample, call))
        functions.append(f"static void call_{i}(uint8_t *const *b)\n{{\n    {code}\n}}\n")
    headers = [f"mct_{name}.h" for name in sorted({c.kernel for c in calls})]
    declared = {
        "prefix": "mct",
        "PREFIX": "MCT",
        "headers": headers,
        "tables": declarations.tables,
        "params": declarations.params,
    }
    table = ", ".join(f"call_{i}" for i in range(len(samples)))
    return (
        "#include <stdint.h>\n"
        f"{render('mct_tables.h.j2', declared)}\n{''.join(functions)}\n"
        f"extern void (*const calls[])(uint8_t *const *b);\n"
        f"void (*const calls[])(uint8_t *const *b) = {{{table}}};\n"
    )


def _statements(declarations: Declarations, sample: Sample, call: KernelCall) -> tuple[str, ...]:
    """The call. Parameters that say where something lies are set first, in a copy."""
    sets = [
        f"{p.name} = {_pointer(sample, p.value)}"
        for p in call.params
        if isinstance(p.value, Operand)
    ]
    if not sets:
        return (declarations.call(call, partial(_pointer, sample)),)
    constant = replace(call, params=tuple(_without_place(p) for p in call.params))
    return declarations.rows(constant, partial(_pointer, sample), "node", sets)


def _without_place(param: Param) -> Param:
    return replace(param, value=None) if isinstance(param.value, Operand) else param


def _pointer(sample: Sample, operand: Operand) -> str:
    """Buffers: inputs, outputs, scratch."""
    outputs = sample.results
    if operand.kind == "scratch":
        return f"(void *)b[{len(sample.types) + len(outputs)}]"
    types = sample.types if operand.kind == "input" else outputs
    index = operand.index % len(types)
    if operand.kind == "output":
        return f"(({CTYPES[types[index].dtype]} *)(void *)b[{len(sample.types) + index}])"
    const = "" if index in updated_inputs(sample).values() else "const "
    return f"(({const}{CTYPES[types[index].dtype]} *)({const}void *)b[{index}])"


def stored(dtype: str, value: Array) -> Array:
    """A tensor's value as C holds it; a step is five words."""
    words = value.astype(np.int64) & 0xFFFFFFFF if dtype == "step" else value
    return words.astype(DTYPES.get(dtype, dtype), copy=False)


@dataclass(frozen=True)
class _Buffer:
    """Memory that a call gets. place: the input whose memory it is, or -1."""

    name: str
    dtype: np.dtype[Any]
    count: int
    alignment: int
    place: int = -1

    @property
    def size_bytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class _Run:
    """The buffers of one call, as the harness reads and writes them."""

    call: int
    sample: Sample
    in_place: int | None

    @cached_property
    def _buffers(self) -> tuple[_Buffer, ...]:
        """Inputs, outputs and scratch."""
        sample, found = self.sample, []
        for i, t in enumerate(sample.types):
            dtype = np.dtype(DTYPES.get(t.dtype, t.dtype))
            count = sample.inputs[i].size
            found.append(_Buffer(f"input {i}", dtype, count, ALIGNMENT[t.dtype]))
        for i, t in enumerate(sample.results):
            dtype = np.dtype(DTYPES.get(t.dtype, t.dtype))
            places = overwritten(sample, i) if self.in_place is not None else ()
            place = places[(self.in_place or 0) % len(places)] if places else -1
            count = t.size_bytes // dtype.itemsize
            found.append(_Buffer(f"output {i}", dtype, count, ALIGNMENT[t.dtype], place))
        call = sample.call
        in_place = any(buffer.place >= 0 for buffer in found)
        size_bytes = max(call.scratch_bytes, call.overwriting_bytes if in_place else 0)
        scratch = _Buffer("scratch", np.dtype(np.uint8), size_bytes, SCRATCH_ALIGNMENT)
        return (*found, scratch)

    def encoded(self) -> bytes:
        sample, buffers = self.sample, self._buffers
        parts = [np.array([self.call, len(buffers)], np.int32).tobytes()]
        for i, buffer in enumerate(buffers):
            head = [buffer.size_bytes, buffer.alignment, buffer.place]
            parts.append(np.array(head, np.int32).tobytes())
            if i < len(sample.types):
                parts.append(stored(sample.types[i].dtype, sample.inputs[i]).tobytes())
            elif buffer.place < 0:
                parts.append(bytes([GARBAGE]) * buffer.size_bytes)
        return b"".join(parts)

    def decoded(self, raw: bytes, position: int) -> tuple[dict[str, Array], int]:
        same = int(np.frombuffer(raw, np.int32, 1, position)[0])
        assert same == 1, f"{kernel_call(self.sample).function} wrote outside its buffers"
        position += 4
        values: dict[str, Array] = {}
        for buffer in self._buffers:
            values[buffer.name] = np.frombuffer(raw, buffer.dtype, buffer.count, position)
            position += buffer.size_bytes
        return values, position


@lru_cache(maxsize=8)
def _runs(
    samples: tuple[Sample, ...], in_place: int | None, known: tuple[Sample, ...]
) -> tuple[_Run, ...]:
    """One for each sample, with the number of its call among those that are known."""
    numbers = {sample: number for number, sample in enumerate(known)}
    return tuple(_Run(numbers[sample], sample, in_place) for sample in samples)


def overwritten(sample: Sample, output: int) -> tuple[int, ...]:
    """The inputs whose storage the output may take over: they are as large."""
    size_bytes = sample.results[output].size_bytes
    places = sample.op.may_overwrite.get(output, ())
    return tuple(i for i in places if sample.types[i].size_bytes == size_bytes)


def ways_to_overwrite(sample: Sample) -> int:
    """How many choices of `in_place` differ; 0 if the first output takes no input's place."""
    places = [len(overwritten(sample, output)) for output in range(len(sample.results))]
    return max(places) if places[0] else 0


def expected(sample: Sample) -> dict[str, Array]:
    """What the operands must hold after the call, flat, by the reference."""
    pairs = enumerate(zip(sample.types, sample.inputs, strict=True))
    values = {f"input {i}": stored(t.dtype, value).ravel() for i, (t, value) in pairs}
    updates = updated_inputs(sample)
    for i, value in enumerate(sample.op.reference(*sample.inputs)):
        name = f"input {updates[i]}" if i in updates else f"output {i}"
        values[name] = value.ravel()
    return values
