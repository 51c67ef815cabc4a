"""The commands of a board's protocol: each has one home, and a program has those of its parts."""

from __future__ import annotations

import re
from itertools import combinations

from mcutrain.codegen.firmware import firmware_text
from mcutrain.codegen.slots import PARTS, commands_of
from mcutrain.target import FIRMWARE
from tests.protocol.device import HERE

SHARED = "kept"
"""A file that two others include."""
ROW = r"X\((MCT_COMMAND_\w+), (\w+), (true|false)\)"
OF_ALL = 1 + 2 + 4 + 8
"""Flags of IDENTIFY that every firmware has."""


def header(name: str) -> str:
    return firmware_text(f"protocol/mct_{name}_commands.h")


def named() -> list[str]:
    """Files of commands that parts have, or programs without them."""
    both = [name for p in PARTS for name in (p.commands, p.commands_without) if name]
    return list(dict.fromkeys(both))


def test_each_file_of_commands_is_of_a_part() -> None:
    files = FIRMWARE.glob("protocol/mct_*_commands.h")
    assert {f.name[4:-11] for f in files} == {*named(), SHARED}


def test_each_command_is_carried_out_by_one_function() -> None:
    text = firmware_text("protocol/mct_protocol.c")
    rows = re.findall(ROW, text)
    for name in named():
        own = re.findall(ROW, header(name))
        assert own, name
        assert all(
            f"{function}(mct_protocol *p, mct_body body) {{" in header(name)
            for _, function, _ in own
        )
        rows += own
    known = re.findall(r"(MCT_COMMAND_\w+) = ", firmware_text("protocol/mct_protocol.h"))
    assert sorted(command for command, _, _ in rows) == sorted(known)


def test_flags_of_commands_do_not_overlap() -> None:
    flags = [
        int(re.findall(rf"#define MCT_{n.upper()}_FLAG (\d+)u", header(n))[0]) for n in named()
    ]
    assert not any(a & b for a, b in combinations([OF_ALL, *flags], 2))
    assert sum(flags) + OF_ALL == 4095


def test_a_program_has_the_commands_of_its_parts() -> None:
    assert commands_of(()) == ("evaluate", "write")
    assert commands_of(("resampling",)) == ("evaluate", "resample")
    assert commands_of(("positions", "targets")) == ("labels", "write")
    assert commands_of(("latents", "replay")) == ("replay", "evaluate", "latent", "write")
    assert commands_of(("kept_input",)) == commands_of(("latents",))
    assert set(commands_of([part.name for part in PARTS])) == {*named()} - {"evaluate", "write"}


def test_the_tests_own_table_has_all_of_them() -> None:
    fake = (HERE / "fake" / "mct_commands.h").read_text(encoding="utf-8")
    assert set(re.findall(r'#include "mct_(\w+)_commands.h"', fake)) == set(named())
