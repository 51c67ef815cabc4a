"""Linux as a board: where its slots lie, and what a full disk does to them."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import PortError
from mcutrain_host.link import SerialLink
from mcutrain_host.protocol import Rate

from tests.protocol.device import (
    FIRMWARE,
    FLAGS,
    INCLUDES,
    INPUT_BYTES,
    SLOT_BYTES,
    SOURCES,
    WITH_RING,
)

RING_SLOT_BYTES, LATENT_BYTES = 40 * 256, 700
WATCH = """
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
ssize_t __real_pwrite(int file, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwrite(int file, const void *bytes, size_t count, off_t offset);
int __real_fdatasync(int file);
int __wrap_fdatasync(int file);
static void note(long number) {
    FILE *notes = fopen(getenv("NOTES"), "a");
    fprintf(notes, "%ld\\n", number);
    fclose(notes);
}
ssize_t __wrap_pwrite(int file, const void *bytes, size_t count, off_t offset) {
    note((long)offset);
    return __real_pwrite(file, bytes, count, offset);
}
int __wrap_fdatasync(int file) {
    note(-1);
    return __real_fdatasync(file);
}
"""
"""Keeps a note of each write, by its place, and of each time that the disk has it: -1."""
SYNCED = -1


def compiled(compiler: Any, output: Path, sources: tuple[Path, ...], *more: str | Path) -> Path:
    """The firmware with a model that learns nothing."""
    own = [path for path in sources if path.name != "fake.c"]
    own += [FIRMWARE / "chips/linux/mct_linux.c", FIRMWARE / "app/mct_app.c"]
    folders = [f"-I{path}" for path in INCLUDES]
    command = [*compiler, *FLAGS, "-D_GNU_SOURCE", *folders, *own, *more, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="session")
def program(c_compilers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without a ring."""
    return compiled(c_compilers[0], tmp_path_factory.mktemp("linux") / "firmware", SOURCES)


def test_pages_of_a_log_reach_the_disk_in_their_order(
    c_compilers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, notes = tmp_path / "watch.c", tmp_path / "notes"
    watch.write_text(WATCH)
    sizes = {"SLOT_BYTES": RING_SLOT_BYTES, "SLOT_ERASE_BYTES": 256, "REMEMBER": 2}
    sizes |= {"LATENT_BYTES": LATENT_BYTES, "RING_ID": 1}
    defines = [f"-DMCT_{name}={size}" for name, size in sizes.items()]
    wraps = "-Wl,--wrap=pwrite,--wrap=fdatasync"
    output = tmp_path / "firmware"
    program = compiled(c_compilers[0], output, WITH_RING, watch, *defines, wraps)
    monkeypatch.setenv("NOTES", str(notes))
    with running(program, tmp_path / "slots") as device:
        device.identify()
        kept = teach(device, 2)
    found = [int(line) for line in notes.read_text().split()]
    first = found.index(SYNCED)
    assert found[:first] == sorted(found[:first], reverse=True), "erased from the end"
    written = found[first + 1 :]
    places = written[::2]
    assert written[1::2] == [SYNCED] * len(places), "each page before the next one"
    assert places == [256 * page for page in range(len(places))]
    assert len(places) == 2 * 3 + 2 * 3, "two latents and, for the first and at the end, a state"
    with running(program, tmp_path / "slots") as device:
        assert device.read_state() == kept


@contextmanager
def running(program: Path, state: Path) -> Iterator[Device]:
    command = [program, "--port", "tcp:0", "--state", state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with SerialLink(process.stdout.readline().split()[1]) as link:
                yield Device(link)
        finally:
            process.kill()


def refused(program: Path, state: Path, file_bytes: int | None = None) -> str:
    """What the program says when it cannot start."""

    def limit() -> None:
        if file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    command = [program, "--port", "tcp:0", "--state", state]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, preexec_fn=limit)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr.removeprefix("firmware: ").rstrip()


def teach(device: Device, count: int) -> bytes:
    """A state after some samples, saved."""
    first = device.identify().position
    for position in range(first, first + count):
        device.send_sample(bytes([position % 256]) * INPUT_BYTES)
        device.train(position % 10, position, Rate(1 << 30, 0))
    device.save()
    return device.read_state()


def test_what_was_saved_is_there_after_a_restart(program: Path, tmp_path: Path) -> None:
    state = tmp_path / "slots"
    for count in (1, 2, 3):
        with running(program, state) as device:
            kept = teach(device, count)
        with running(program, state) as device:
            assert device.read_state() == kept
    assert state.stat().st_size == 2 * SLOT_BYTES


def test_the_slots_have_their_place_on_the_disk_from_the_start(
    program: Path, tmp_path: Path
) -> None:
    state = tmp_path / "slots"
    with state.open("wb") as file:
        file.truncate(2 * SLOT_BYTES)  # as an earlier version left it
    with running(program, state) as device:
        device.identify()
        assert state.stat().st_blocks * 512 >= 2 * SLOT_BYTES


@pytest.mark.parametrize("room", [0, SLOT_BYTES])
def test_without_room_for_the_slots_it_says_so_and_leaves_no_file(
    program: Path, tmp_path: Path, room: int
) -> None:
    state = tmp_path / "slots"
    sentence = refused(program, state, room)
    assert sentence == f"cannot keep the state in {state}: File too large"
    assert not state.exists()


def test_a_second_host_is_turned_away_and_the_first_one_goes_on(
    program: Path, tmp_path: Path
) -> None:
    says = "it is in use by another program; end that one, or wait for it"
    with running(program, tmp_path / "slots") as device:
        device.identify()
        for _ in range(3):
            with SerialLink(device.link.name) as second, pytest.raises(PortError, match=says):
                Device(second).identify()
            teach(device, 1)
        device.reopen()  # the next one is let in as soon as the first has left
        assert device.identity.position == 3


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "full").open("wb", 0) as file:
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(disk).free == 0


def test_on_a_full_disk_it_says_so_and_leaves_no_file(program: Path, small_disk: Path) -> None:
    fill(small_disk)
    state = small_disk / "slots"
    sentence = refused(program, state)
    assert sentence == f"cannot keep the state in {state}: No space left on device"
    assert not state.exists()


def test_a_file_with_holes_on_a_full_disk_is_told_and_stays(
    program: Path, small_disk: Path
) -> None:
    state = small_disk / "slots"
    with state.open("wb") as file:
        file.truncate(2 * SLOT_BYTES)
    fill(small_disk)
    assert refused(program, state).endswith("No space left on device")
    assert state.stat().st_size == 2 * SLOT_BYTES


def test_a_disk_that_fills_up_later_takes_every_save(program: Path, small_disk: Path) -> None:
    state = small_disk / "slots"
    with running(program, state) as device:
        device.identify()
        fill(small_disk)
        kept = [teach(device, 1) for _ in range(3)]
    with running(program, state) as device:
        assert device.read_state() == kept[-1]
