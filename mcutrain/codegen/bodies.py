"""A library's kernel bodies: of several instruction sets in one folder, or of one alone.

A body of another set lies beside the portable one, `mct_conv_2d_s8_dsp.c` beside
`mct_conv_2d_s8.c`. Each begins with a condition, so that a compiler may be given all files: the
library's mct_isa.h decides by the compiler's macros which of them are compiled.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from mcutrain.codegen import firmware, isa
from mcutrain.codegen.c_text import COMMENT_LENGTH
from mcutrain.codegen.firmware import SOURCE_FOLDER, firmware_text, place_of, places_in
from mcutrain.codegen.templates import render
from mcutrain.target import PORTABLE

HEADER = f"{SOURCE_FOLDER}/mct_isa.h"


def library_bodies(files: Mapping[str, str], wanted: str) -> dict[str, str]:
    """Plain sources → all that a library needs in their place, by name in the firmware folder.

    wanted: the instruction set whose bodies alone are taken, or isa.ALL.
    """
    if wanted != isa.ALL:
        return firmware.with_includes({**files, **firmware.isa_bodies(files, wanted)}, wanted)
    portable = firmware.body_places(files, PORTABLE)
    kept = {name: text for name, text in files.items() if name not in portable}
    found = firmware.with_includes(kept | {n: firmware_text(n) for n in portable.values()})
    for row in isa.travelling():
        places = firmware.body_places(files, row.name).values()
        found |= firmware.with_includes({name: firmware_text(name) for name in places}, row.name)
    return {name: guarded(name, text) for name, text in found.items()}


def header(wanted: str) -> str:
    """mct_isa.h: which set's bodies are compiled. wanted: as library_bodies takes it."""
    rows = isa.taken(wanted)
    return render("mct_isa.h.j2", {"rows": rows, "chosen": [r for r in rows if r.conditions]})


def library_flags(wanted: str) -> tuple[str, ...]:
    """What a library's compiler and linker need besides. wanted: as library_bodies takes it."""
    return () if wanted == isa.ALL else isa.row_of(wanted).flags


def guarded(name: str, text: str) -> str:
    """A source of the firmware folder, for a folder that holds bodies of several sets."""
    begin, end = _guard(name)
    return f"{begin}{text}{end}"


def with_bodies(files: Mapping[str, str], wanted: str) -> dict[str, str]:
    """A library's files with the bodies of one instruction set, which may be one of a computer.

    files: of a library whose compiler can choose, or that has portable bodies alone.
    """
    others, guarded_places = _other_names(), _guarded_places()
    kept = {}
    for name, text in files.items():
        if name in others:
            continue
        if name in guarded_places:
            begin, end = _guard(guarded_places[name])
            text = text.removeprefix(begin).removesuffix(end)
        kept[name] = text
    if HEADER in kept:
        kept[HEADER] = header(wanted)
    return kept | firmware.isa_includes(kept, wanted) | firmware.isa_bodies(kept, wanted)


def portable_files(folder: Path) -> dict[str, str]:
    """A generated project's own C from `folder`, with this version's portable runtime and kernels.

    What belongs to a board is left out, and so are faster kernels, which compute the same.
    """
    places = places_in(("runtime", "kernels/*"))
    faster = {*places_in(("kernels/*/*", "isa/*")), *(Path(name).name for name in _other_names())}
    found = sorted((folder / SOURCE_FOLDER).glob("*.[ch]"))
    names = [places[path.name] for path in found if path.name in places]
    needed = [name for name in names if name.endswith(".c") or name.startswith("runtime/")]
    texts = {name: firmware_text(name) for name in needed}
    own = [path for path in found if path.name not in places.keys() | faster]
    texts |= {f"{SOURCE_FOLDER}/{path.name}": path.read_text(encoding="utf-8") for path in own}
    shared = firmware.with_includes(texts | firmware.isa_bodies(needed, PORTABLE))
    files = {place_of(name): text for name, text in shared.items()}
    return {**files, **({HEADER: header(PORTABLE)} if HEADER in files else {})}


@lru_cache(maxsize=4096)
def _guard(name: str) -> tuple[str, str]:
    """What a source begins and ends with; nothing if every set compiles it, or if it is a header.

    name: in the firmware folder.
    """
    users = _users(name)
    if PurePosixPath(name).suffix != ".c" or len(users) == len(isa.travelling()):
        return "", ""
    condition = " ||\\\n    ".join(f"MCT_ISA == {row.macro}" for row in users)
    begin = f'{_remark(name)}#include "mct_isa.h"\n#if {condition}\n\n'
    return begin, "\n#endif\n"


def _remark(name: str) -> str:
    """Return where the other bodies are, as a comment."""
    plain = _plain_of(name)
    if not plain:
        said = f"What bodies for {_set_of(name)} share. mct_isa.h says whether it is compiled."
    else:
        names = (_body_of(plain, row) for row in isa.travelling())
        others = ", ".join(sorted({Path(place_of(one)).name for one in names if one != name}))
        said = f"The same function is in {others}. mct_isa.h says which is compiled."
    width = COMMENT_LENGTH - len(" * ")
    lines = textwrap.wrap(f"{said} */", width, break_on_hyphens=False)
    return "/* " + "\n * ".join(lines) + "\n"


def _users(name: str) -> tuple[isa.InstructionSet, ...]:
    """The sets of a library that compile a source of the firmware folder."""
    plain, own = _plain_of(name), _set_of(name)
    if plain:
        return tuple(row for row in isa.travelling() if _body_of(plain, row) == name)
    if own:
        return tuple(row for row in isa.travelling() if own in isa.chain(row.name))
    return isa.travelling()


def _set_of(name: str) -> str:
    """The instruction set that a file belongs to; empty if all compile it."""
    path = PurePosixPath(name)
    is_own = name.startswith("isa/") or (name.startswith("kernels/") and len(path.parts) == 4)
    return path.parent.name if is_own else ""


def _plain_of(name: str) -> str:
    """The plain source of an operator that a body stands in for, or that it is; else empty."""
    path = PurePosixPath(name)
    if firmware.isa_of_body(name):
        return str(path.parents[1] / path.name)
    return name if name.startswith("kernels/") and not _set_of(name) else ""


def _body_of(plain: str, row: isa.InstructionSet) -> str:
    """The file that an instruction set compiles for a plain source; both as places."""
    return firmware.body_places([plain], row.name).get(plain, plain)


def _faster() -> tuple[isa.InstructionSet, ...]:
    """The sets whose bodies a library takes along beside the portable ones."""
    return tuple(row for row in isa.travelling() if row.name != PORTABLE)


@lru_cache(maxsize=1)
def _other_names() -> frozenset[str]:
    """Return what a library holds of other sets than portable, by name in the project."""
    sets = (places_in((f"kernels/*/{r.name}", f"isa/{r.name}")) for r in _faster())
    return frozenset(place_of(place) for places in sets for place in places.values())


@lru_cache(maxsize=1)
def _guarded_places() -> Mapping[str, str]:
    """Name in a project → place of the portable bodies that some other set has a body for."""
    sets = (places_in((f"kernels/*/{row.name}",)) for row in _faster())
    plain = {_plain_of(place) for places in sets for place in places.values()} - {""}
    found = (firmware.body_places([name], PORTABLE).get(name, name) for name in plain)
    return {place_of(name): name for name in found}
