"""Files of the firmware folder, and a board's firmware around the step: flags, memory map."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from mcutrain_host.manifest import BoardDescription, BoardMemory, Compilation, Region

from mcutrain.codegen.c_text import comment, string
from mcutrain.codegen.interface import Interface
from mcutrain.codegen.isa import chain
from mcutrain.errors import McutrainError, TargetError
from mcutrain.features import frontend_of, listening_bytes
from mcutrain.memplan import DEEPEST, Latent, TrainingPlan, find_latent
from mcutrain.target import FIRMWARE, PAGE_BYTES, PORTABLE, Target

LIBRARY_SOURCES = ("runtime/mct_augment.c", "runtime/mct_augment.h")
APP_SOURCES = (
    "app/mct_app.c",
    "protocol/mct_frame.c",
    "protocol/mct_protocol.c",
    "store/mct_store.c",
)
RING_HEADER = "runtime/mct_reservoir.h"
RING_SOURCE = "store/mct_log.c"
"""Source that takes the place of the last one where latents are remembered."""
SOURCE_FOLDER = "src"
LIBRARY = ("frontends/", "isa/", "kernels/", "runtime/")
"""What a project needs without a board: folders whose files have different names."""
CHIP_MAIN = "app/mct_main.c"
INCLUDE_FOLDERS = ("runtime", "app", "protocol", "store")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
CHIP_FLAGS = ("-ffreestanding", "-ffunction-sections", "-fdata-sections", "-fno-common")
CHIP_LINK = ("-nostdlib", "-Wl,--gc-sections", "-L.")
FIRST_ADDRESS = 0x10000000
SAVED_HEADER_BYTES = 24  # MCT_STATE_HEADER_BYTES
TIMING_BYTES = 8
"""SRAM for each node that is timed, and for all together."""
IMPRINT_BYTES = 8
"""SRAM besides an int32 for each feature, where a class gets its weights from samples."""
SENSOR_ADDRESS = 0x5F000000
"""Where virtual boards have a source of samples: mcutrain_host.virtual.sensor."""
NAME_BYTES = 80
"""The most that a response has room for of each of the names of board, model and scheme."""


def isa_bodies(names: Iterable[str], isa: str) -> dict[str, str]:
    """The faster bodies that an instruction set has in the place of the plain files, by name."""
    return {name: firmware_text(place) for name, place in body_places(names, isa).items()}


def isa_includes(names: Iterable[str], isa: str) -> dict[str, str]:
    """Return what these bodies include that is not among the names, by its place.

    A plain body's headers may be missing where a portable body took its place, which has others.
    """
    names = list(names)
    there = {PurePosixPath(name).name for name in names}
    bodies = {place: firmware_text(place) for place in body_places(names, isa).values()}
    found = with_includes(bodies, isa)
    missing = {name for name in found if PurePosixPath(name).name not in there}
    return {name: found[name] for name in missing - bodies.keys()}


def body_places(names: Iterable[str], isa: str) -> dict[str, str]:
    """Name → the file in kernels/<operator>/<isa>/ of the same name, if there is one.

    Where the set has none, take the body of the set that stands in for it. Nothing where there is
    only the plain body.
    """
    found = ((name, _body_place(name, isa)) for name in names)
    return {name: place for name, place in found if place is not None}


@lru_cache(maxsize=4096)
def _body_place(name: str, isa: str) -> str | None:
    own = PurePosixPath(name).name
    found = (places_in((f"kernels/*/{one}",)).get(own) for one in chain(isa))
    return next((place for place in found if place is not None), None)


@lru_cache(maxsize=4096)
def place_of(name: str) -> str:
    """Return where a file of the firmware folder lies in a project.

    What models share is in one folder with the model's own files: a program needs one -I, and a
    build system one list of sources. A board's files stay in folders of their own. A faster body
    gets its instruction set's name, so that it can lie beside the portable one. That has the name
    of the plain one, for which it stands in.
    """
    if not name.startswith(LIBRARY):
        return name
    path = PurePosixPath(name)
    isa = isa_of_body(name)
    suffix = "" if isa in ("", PORTABLE) else f"_{isa}"
    return f"{SOURCE_FOLDER}/{path.stem}{suffix}{path.suffix}"


@lru_cache(maxsize=4096)
def isa_of_body(name: str) -> str:
    """Whose body of an operator a file of the firmware folder is; empty if it is none or plain.

    >>> isa_of_body("kernels/conv_2d/dsp/mct_conv_2d_s8.c")
    'dsp'
    """
    path = PurePosixPath(name)
    is_body = name.startswith("kernels/") and len(path.parts) == 4
    return path.parent.name if is_body and _is_file(str(path.parents[1] / path.name)) else ""


@lru_cache(maxsize=1024)
def firmware_text(name: str) -> str:
    """A file of the firmware folder; read once per process."""
    return (FIRMWARE / name).read_text(encoding="utf-8")


@lru_cache(maxsize=4096)
def _is_file(name: str) -> bool:
    return (FIRMWARE / name).is_file()


def with_includes(files: Mapping[str, str], isa: str = PORTABLE) -> dict[str, str]:
    """The files and all headers they include, with those headers' own sources if they have any.

    files: name relative to the firmware folder → text, which may differ from what is stored there.
    """
    texts = dict(files)
    waiting = list(files)
    while waiting:
        name = waiting.pop()
        folder = name.rpartition("/")[0] or "."
        for header in _included(texts[name]):
            for needed in _header_files(f"{folder}/{header}", isa):
                if needed not in texts:
                    texts[needed] = firmware_text(needed)
                    waiting.append(needed)
    return dict(sorted(texts.items()))


@lru_cache(maxsize=1024)
def _included(text: str) -> tuple[str, ...]:
    """Return what a file includes by quotes."""
    return tuple(re.findall(r'^#include "(.+)"', text, re.MULTILINE))


@lru_cache(maxsize=4096)
def _header_files(beside: str, isa: str) -> tuple[str, ...]:
    """A header, and the source beside it that implements it for an instruction set.

    beside: where the header is if it lies in the folder of the file that includes it.
    """
    sets = chain(isa)
    own = (folder for one in sets for folder in (f"kernels/*/{one}", f"isa/{one}"))
    places = places_in((*INCLUDE_FOLDERS, "kernels/*", *own))
    place = beside if _is_file(beside) else places.get(PurePosixPath(beside).name)
    if place is None:
        return ()
    source = str(PurePosixPath(place).with_suffix(".c"))
    is_own = any(f"/{one}/" in place for one in sets)
    return (place, source) if is_own and _is_file(source) else (place,)


@lru_cache(maxsize=16)
def places_in(folders: tuple[str, ...]) -> dict[str, str]:
    """File name → place in the firmware folder."""
    return {
        path.name: str(path.relative_to(FIRMWARE))
        for folder in folders
        for path in FIRMWARE.glob(f"{folder}/*.[ch]")
    }


def library_files(has_ring: bool = False) -> dict[str, str]:
    """What a program of one's own may call beside the model. has_ring: of latents in its memory."""
    names = (*LIBRARY_SOURCES, *((RING_HEADER,) if has_ring else ()))
    return {name: firmware_text(name) for name in names}


def board_files(target: Target, commands: Iterable[str]) -> dict[str, str]:
    """Application, protocol, store, start-up and drivers, and the headers beside them.

    commands: of the program's parts.
    """
    store = RING_SOURCE if target.remember else APP_SOURCES[-1]
    names = [*APP_SOURCES[:-1], store, *target.sources]
    names += [f"protocol/mct_{name}_commands.h" for name in commands]
    if not target.is_hosted:
        names.append(CHIP_MAIN)
    files = {name: target.path(name).read_text(encoding="utf-8") for name in names}
    for folder in sorted({str(Path(name).parent) for name in target.sources}):
        for header in sorted(target.path(folder).rglob("*.h")):
            inside = header.relative_to(target.path(folder))
            files[f"{folder}/{inside}"] = header.read_text(encoding="utf-8")
    script = target.values.get("linker_script")
    if script is not None:
        files[script] = target.path(script).read_text(encoding="utf-8")
    for tool in sorted({str(t) for t in target.values.get("output", {}).get("tools", ())}):
        files[tool] = firmware_text(tool)
    return files


def compile_facts(target: Target, files: Iterable[str]) -> Compilation:
    """Return how the project is compiled, for the Makefile and for `mcutrain build`."""
    names = sorted(files)
    sources = [n for n in names if n.endswith(".c") and not n.startswith("tools/")]
    folders = {str(Path(n).parent) for n in names if n.endswith(".h")}
    values = target.values
    chip = [] if target.is_hosted else [*CHIP_FLAGS]
    script = values.get("linker_script")
    link = list(values.get("link", ()))
    if script is not None:
        link = [*CHIP_LINK, "-T", script, *link]
    return Compilation(
        gcc=str(values.get("gcc", "arm-none-eabi-gcc")),
        flags=tuple(values.get("flags", ())),
        zig=tuple(values.get("zig", ())),
        common_flags=("-std=c11", *chip, *WARNINGS),
        include_dirs=(".", *sorted(folders - {"."})),
        sources=tuple(sources),
        link=tuple(link),
        linker_script=script,
        output="firmware" if target.is_hosted else "firmware.elf",
    )


def wanted_latent(plan: TrainingPlan, interface: Interface) -> str | None:
    """Return what steps may begin with; a proxy cascade makes it by its fronts. Raises
    McutrainError.
    """
    wanted = interface.wanted_latent
    if plan.ladder is None:
        return wanted
    if wanted not in (None, DEEPEST, plan.ladder.latent):
        raise McutrainError(
            f"the fronts of the cascade make {plan.ladder.latent!r}, so steps cannot begin with "
            f"{wanted!r}: leave out one of them"
        )
    return plan.ladder.latent


def with_latents(
    target: Target, plan: TrainingPlan, interface: Interface, program_bytes: int = 0
) -> Target:
    """The board as its firmware uses it. program_bytes: that slots for a ring leave in flash; at
    least the constants. Raises PlanError, TargetError."""
    if interface.timing is not None:
        target = replace(target, timing_bytes=TIMING_BYTES * (1 + len(interface.timing.nodes)))
    if interface.centre:
        target = replace(target, imprint_bytes=IMPRINT_BYTES + 4 * len(interface.centre))
    front = frontend_of(plan.training) if interface.listen else None
    if interface.sensor and not target.emulation.unicorn:
        raise TargetError(
            f"only a virtual board has the source that a sensor reads, and {target.name} has no "
            "virtual twin: leave out --sensor"
        )
    if front is not None:
        heard = listening_bytes(front, interface.history, interface.app, interface.keep_samples)
        target = replace(target, listening_bytes=heard, app=interface.app, sensor=interface.sensor)
    saved_bytes = plan.kept_bytes + SAVED_HEADER_BYTES
    program_bytes = max(program_bytes, plan.constant_bytes)
    if interface.elastic is not None:
        target = target.with_choice(saved_bytes, program_bytes)
    if plan.backing_bytes and not interface.remember:
        target = target.with_slots_for(saved_bytes, program_bytes)
    wanted = wanted_latent(plan, interface)
    if wanted is None:
        return target
    training = plan.training
    if training.is_tail and interface.remember and any(s.is_fed for s in plan.segments):
        raise TargetError(
            "a tail that takes its latents row by row remembers none: plan it with --stream off"
        )
    latent_bytes = (
        training.input_type.size_bytes if training.is_tail else find_latent(plan, wanted).size_bytes
    )
    return target.with_latents(latent_bytes, interface.remember, saved_bytes, program_bytes)


def board_values(
    target: Target, plan: TrainingPlan, scheme: str, latent: Latent | None = None
) -> dict[str, Any]:
    """Return what the board's templates print."""
    saved_bytes = plan.kept_bytes + SAVED_HEADER_BYTES
    defines = {
        "MODEL_NAME": string(plan.training.graph.name, NAME_BYTES),
        "SCHEME_NAME": string(scheme, NAME_BYTES),
        "BOARD_NAME": string(target.name, NAME_BYTES),
        "STACK_BYTES": target.stack_bytes,
        "SRAM_BYTES": _ram(target, plan),
        "PROTOCOL_BYTES": 0 if target.is_hosted else target.protocol_bytes,
        "HAS_BOOTLOADER": int(bool(target.values.get("bootloader", False))),
        "SLOT_BYTES": target.slot_bytes_of(saved_bytes),
        "SLOT_ERASE_BYTES": PAGE_BYTES if target.is_hosted else target.erase_bytes,
    }
    if target.remember:
        of = f"{target.remember} {plan.training.x if latent is None else latent.tensor}"
        of += f" {target.slots[0]}" if target.own_flash else ""  # pages count from there
        defines |= {"REMEMBER": f"{target.remember}u", "RING_ID": zlib.crc32(of.encode()) & 0xFFFF}
    if target.app:
        defines["LEARN"] = 1
    if target.sensor:
        defines["SENSOR"] = f"0x{SENSOR_ADDRESS:08X}u"
    for i, origin in enumerate(target.slots):
        defines[f"SLOT_{i}"] = f"0x{origin:08X}u"
    defines |= {key: _literal(value) for key, value in target.values.get("define", {}).items()}
    return {
        "title": target.title,
        "defines": defines,
        "stack_bytes": target.stack_bytes,
        "flash": target.flash,
        "vectors": target.vectors,
        "why_no_saves": comment(target.why_no_saves(saved_bytes)),
        "ram": None if target.ram is None else Region(target.ram.origin, _ram(target, plan)),
    }


def _literal(value: object) -> object:
    """A value of [define] in C; what can only be an address in hexadecimal."""
    if isinstance(value, int) and value >= FIRST_ADDRESS:
        return f"0x{value:08X}u"
    return string(value) if isinstance(value, str) else value


def _ram(target: Target, plan: TrainingPlan) -> int:
    return target.sram_bytes(plan.arena_bytes, plan.resident_bytes)


def board_facts(target: Target, plan: TrainingPlan, files: Iterable[str]) -> BoardDescription:
    """The manifest's part on the board: its description, its memory, how it is built."""
    why_no_saves = target.why_no_saves(plan.kept_bytes + SAVED_HEADER_BYTES)
    return BoardDescription(
        name=target.name,
        title=target.title,
        core=target.core,
        isa=target.isa,
        uart=target.uart,
        flash=target.flashing,
        emulate=target.emulation,
        define=target.values.get("define", {}),
        sensor=target.sensor,
        bootloader=target.values.get("bootloader", ""),
        output=target.output,
        memory=BoardMemory(
            flash=target.flash,
            vectors=target.vectors,
            ram=target.ram,
            stack_bytes=target.stack_bytes,
            firmware_bytes=target.firmware_bytes(),
            arena_bytes=plan.arena_bytes,
            state_bytes=plan.state_bytes,
            sram_bytes=_ram(target, plan),
            slots=() if why_no_saves else tuple((o, target.slot_bytes) for o in target.slots),
            why_no_saves=why_no_saves,
            slots_flash_bytes=target.slots_flash_bytes,
            remember=target.remember,
            ring_flash_bytes=target.ring_flash_bytes,
        ),
        compile=compile_facts(target, files),
    )
