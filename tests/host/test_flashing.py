"""Each way brings exactly the program onto the board, or says what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import sys
import termios
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.errors import BuildError, FlashError, HostError, ProjectError
from mcutrain_host.flashing import Job, choose, pyocd, scp, uf2
from mcutrain_host.flashing.image import LoadSegment, load_segments, sectors_of
from mcutrain_host.manifest import FILE, BoardProject, Flashing, Region, Uart
from mcutrain_host.memory import linked_memory
from mcutrain_host.virtual.stm32_rom import Bootloader, LoaderMemory

from tests.host.boards import described, manifest_of
from tests.host.fake_device import FakeDevice
from tests.host.serve import on_pty

ORIGIN = 0x0800_0000
SECTORS = [0x8000] * 4 + [0x20000]
VECTORS, CODE = bytes(range(200)), bytes(i * 7 % 256 for i in range(1001))


def elf(*segments: tuple[int, bytes]) -> bytes:
    """A 32-bit ELF for Arm with these segments and one that is not loaded."""
    count = len(segments) + 1
    offset = 52 + 32 * count
    head = struct.pack(
        "<4s5B7x2H5I6H", b"\x7fELF", 1, 1, 1, 0, 0, 2, 40, 1, 0, 52, 0, 0, 52, 32, count, 0, 0, 0
    )
    table, data = b"", b""
    for address, content in segments:
        place = offset + len(data)
        table += struct.pack("<8I", 1, place, address, address, len(content), len(content), 5, 4)
        data += content
    table += struct.pack("<8I", 1, 0, 0x2000_0000, 0x2000_0000, 0, 4096, 6, 4)  # .bss
    return head + table + data


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., BoardProject]:
    def make(**flash: Any) -> BoardProject:
        board = described(
            "board",
            uart=Uart(baud=460_800, pins="PA9 and PB7"),
            bootloader="USART1 on PA9 and PA10",
            flash=Flashing(**flash),
            vectors=Region(ORIGIN, 0x8000),
        )
        (tmp_path / "build").mkdir(exist_ok=True)
        built = elf((ORIGIN + 0x20000, CODE), (ORIGIN, VECTORS))
        (tmp_path / "build/firmware.elf").write_bytes(built)
        (tmp_path / FILE).write_text(manifest_of(board).to_json())
        return BoardProject.read(tmp_path)

    return make


class Chip:
    """A running FakeDevice whose bootloader is the emulated ROM's."""

    def __init__(self, is_in_bootloader: bool = False, is_worn: bool = False) -> None:
        self.flash = bytearray(b"\xaa" * sum(SECTORS))
        self.erased: list[int] = []
        self.started: int | None = None
        self.is_worn = is_worn
        self.seen: list[bytes] = []
        self.firmware = FakeDevice(has_bootloader=True, in_bootloader=is_in_bootloader)
        self.out = bytearray()
        memory = LoaderMemory(self.read, self.write, self.erase, self.go)
        self.bootloader = Bootloader(0x449, memory, self.out.append)

    def receive(self, data: bytes) -> bytes:
        if not self.firmware.in_bootloader:
            return self.firmware.receive(data)
        for byte in data:
            self.bootloader.take(byte)
        answer = bytes(self.out)
        self.out.clear()
        return answer

    def read(self, address: int, count: int) -> bytes | None:
        first = address - ORIGIN
        return bytes(self.flash[first : first + count]) if 0 <= first < len(self.flash) else None

    def write(self, address: int, data: bytes) -> bool:
        first = address - ORIGIN
        if self.flash[first : first + len(data)] != b"\xff" * len(data):
            return False
        self.flash[first : first + len(data)] = data
        if self.is_worn:
            self.flash[first] ^= 1
        self.seen.append(bytes(self.flash))
        return True

    def erase(self, sectors: list[int] | None) -> bool:
        assert sectors is not None, "the whole flash would lose the slots"
        for sector in sectors:
            first = sum(SECTORS[:sector])
            self.flash[first : first + SECTORS[sector]] = b"\xff" * SECTORS[sector]
            self.erased.append(sector)
            self.seen.append(bytes(self.flash))
        return True

    def go(self, address: int) -> bool:
        self.started = address
        self.firmware.in_bootloader = False
        return True


STM32 = {"ways": ["pyocd", "stm32"], "origin": ORIGIN, "sector_bytes": SECTORS}
needs_stm32loader = pytest.mark.skipif(
    importlib.util.find_spec("stm32loader") is None,
    reason="pip install 'mcutrain[stm32]'",
)


def test_only_what_is_loaded_is_in_the_image(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(elf((ORIGIN + 4096, CODE), (ORIGIN, VECTORS)))
    assert load_segments(tmp_path / "e") == [
        LoadSegment(ORIGIN, VECTORS),
        LoadSegment(ORIGIN + 4096, CODE),
    ]


def test_what_is_no_elf_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(b"no ELF")
    with pytest.raises(FlashError, match="no ELF file that can be read"):
        load_segments(tmp_path / "e")


def test_sectors_are_those_that_hold_a_byte() -> None:
    def found(*segments: tuple[int, int]) -> list[int]:
        made = [LoadSegment(ORIGIN + first, bytes(size)) for first, size in segments]
        return sectors_of(made, ORIGIN, SECTORS)

    assert found((0, 1)) == [0]
    assert found((0, 0x8000)) == [0]
    assert found((0, 0x8001)) == [0, 1]
    assert found((0, 200), (0x20000, 1001)) == [0, 4]
    assert found((0x7FFF, 2), (0x3FFFF, 1)) == [0, 1, 4]
    with pytest.raises(FlashError, match="outside the chip's flash"):
        found((0x3FFFF, 2))


def test_many_sectors_of_one_size_are_said_at_once() -> None:
    assert Flashing(sector_bytes=(0x800,), sector_count=3).sectors == (0x800, 0x800, 0x800)
    assert Flashing(sector_bytes=(1, 2)).sectors == (1, 2)
    assert Flashing().sectors == ()
    for wrong in ({"sector_bytes": (1, 2), "sector_count": 3}, {"sector_count": 3}):
        with pytest.raises(ValueError, match="sectors of one size"):
            Flashing(**wrong)
    for count in (-1, 65537):
        with pytest.raises(ValueError, match=f"sector_count = {count} is not 0 to 65536"):
            Flashing(sector_bytes=(1,), sector_count=count)


def test_a_manifest_with_more_sectors_than_a_flash_has_is_a_sentence(
    project: Callable[..., BoardProject], tmp_path: Path
) -> None:
    project(sector_bytes=(0x800,), sector_count=256)
    file = tmp_path / FILE
    file.write_text(file.read_text().replace('"sector_count": 256', '"sector_count": 999999999'))
    with pytest.raises(ProjectError, match="sector_count = 999999999 is not 0 to 65536"):
        BoardProject.read(tmp_path)


@needs_stm32loader
@pytest.mark.parametrize("is_in_bootloader", [False, True])
def test_stm32_writes_the_program_and_leaves_the_slots(
    project: Callable[..., BoardProject], is_in_bootloader: bool
) -> None:
    chip = Chip(is_in_bootloader)
    told: list[str] = []
    with on_pty(chip.receive) as path:
        job = Job(project(**STM32), path, progress=lambda what, done, of: told.append(what))
        done = choose(job, "stm32").run(job)
    assert chip.erased == [0, 4]
    assert chip.flash[: len(VECTORS)] == VECTORS
    assert chip.flash[0x20000 : 0x20000 + len(CODE)] == CODE
    assert chip.flash[0x8000:0x20000] == b"\xaa" * 0x18000
    assert chip.started == ORIGIN
    assert list(dict.fromkeys(told)) == ["erasing", "writing", "reading back"]
    assert done == "1,201 bytes in 2 sectors were written, read back and started"


@needs_stm32loader
def test_stm32_has_a_start_address_only_when_the_rest_is_there(
    project: Callable[..., BoardProject],
) -> None:
    chip = Chip(is_in_bootloader=True)
    with on_pty(chip.receive) as path:
        choose(Job(project(**STM32), path), "stm32").run(Job(project(**STM32), path))
    *before, last = chip.seen  # what a power cut after each operation would leave
    assert len(before) >= 2 + 5
    assert {flash[:32] for flash in before} == {b"\xff" * 32}
    assert before[-1][32:] == last[32:]
    assert last[: len(VECTORS)] == VECTORS
    assert last[0x20000 : 0x20000 + len(CODE)] == CODE


@needs_stm32loader
def test_stm32_notices_flash_that_reads_back_otherwise(
    project: Callable[..., BoardProject],
) -> None:
    chip = Chip(is_in_bootloader=True, is_worn=True)
    with on_pty(chip.receive) as path:
        job = Job(project(**STM32), path)
        with pytest.raises(FlashError, match="0x08000020 does not read back"):
            choose(job, "stm32").run(job)
    assert chip.started is None


@needs_stm32loader
def test_stm32_without_a_bootloader_says_how_to_get_there(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcutrain_host.flashing.stm32.SYNC_SECONDS", 0.1)
    with on_pty(lambda data: b"") as path:
        job = Job(project(**STM32), path)
        with pytest.raises(FlashError, match=r"set BOOT0 to 1 and reset the board.*PA9 and PA10"):
            choose(job, "stm32").run(job)


@needs_stm32loader
def test_stm32_says_what_a_bootloader_refused(project: Callable[..., BoardProject]) -> None:
    chip = Chip(is_in_bootloader=True)
    chip.bootloader.memory = LoaderMemory(chip.read, chip.write, lambda sectors: False, chip.go)
    with on_pty(chip.receive) as path:
        job = Job(project(**STM32), path)
        with pytest.raises(FlashError, match=f"the bootloader at {path} refused: NACK"):
            choose(job, "stm32").run(job)


def test_pyocd_is_told_board_and_program(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = write_tool(tmp_path / "tool.py", 'print("ok")')
    monkeypatch.setattr(pyocd, "_command", lambda: tool)
    job = Job(project(ways=["pyocd"], pyocd_target="stm32f7"))
    assert choose(job).name == "pyocd"
    choose(job).run(job)
    asked = json.loads((tmp_path / "asked.json").read_text())
    options = ["--no-wait", "--target", "stm32f7", "--erase", "sector"]
    assert asked == ["load", *options, str(job.project.elf)]


def test_pyocd_without_the_chip_says_how_to_teach_it(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = "sys.exit(\"Target type stm32f7 not recognized. Use 'pyocd list --targets'\")"
    tool = write_tool(tmp_path / "tool.py", message)
    monkeypatch.setattr(pyocd, "_command", lambda: tool)
    job = Job(project(ways=["pyocd"], pyocd_target="stm32f7"))
    with pytest.raises(FlashError, match="pyocd pack install stm32f7"):
        choose(job).run(job)


def test_pyocd_that_fails_is_quoted(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = write_tool(tmp_path / "tool.py", 'sys.exit("No connected debug probes")')
    monkeypatch.setattr(pyocd, "_command", lambda: tool)
    job = Job(project(ways=["pyocd"], pyocd_target="stm32f7"))
    with pytest.raises(FlashError, match="pyOCD failed: No connected debug probes"):
        choose(job).run(job)


def write_tool(path: Path, last_line: str) -> list[str]:
    """A program that notes its arguments."""
    lines = (
        "import json, sys, pathlib",
        "pathlib.Path(__file__).with_name('asked.json').write_text(json.dumps(sys.argv[1:]))",
        last_line,
    )
    path.write_text("\n".join(lines))
    return [sys.executable, str(path)]


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    place = tmp_path / "drive"
    place.mkdir()
    (place / "INFO_UF2.TXT").write_text("UF2 Bootloader v3.0\r\nBoard-ID: RPI-RP2\r\n")
    return place


def test_uf2_is_copied_to_the_drive(project: Callable[..., BoardProject], drive: Path) -> None:
    job = Job(project(ways=["uf2"]), to=str(drive))
    with pytest.raises(FlashError, match="run `mcutrain build"):
        choose(job).run(job)
    image = bytes(range(256)) * 600
    (job.project.folder / "build/firmware.uf2").write_bytes(image)
    assert "the board has started it" in choose(job).run(job)
    assert (drive / "firmware.uf2").read_bytes() == image


def test_uf2_finds_the_drive(
    project: Callable[..., BoardProject],
    drive: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    other = tmp_path / "stick"
    other.mkdir()
    job = Job(project(ways=["uf2"]))
    (job.project.folder / "build/firmware.uf2").write_bytes(b"image")
    monkeypatch.setattr(uf2, "_mounted", lambda: iter([other]))
    with pytest.raises(FlashError, match="--way uf2 needs the board as a USB drive: hold BOOTSEL"):
        choose(job)
    monkeypatch.setattr(uf2, "_mounted", lambda: iter([other, drive]))
    choose(job).run(job)
    assert (drive / "firmware.uf2").read_bytes() == b"image"
    monkeypatch.setattr(uf2, "_mounted", lambda: iter([drive, drive]))
    with pytest.raises(FlashError, match="there are 2 such drives"):
        choose(job).run(job)


def test_uf2_brings_a_board_that_runs_into_its_bootloader(
    project: Callable[..., BoardProject], drive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its port, opened at 1200 baud and closed; the drive is there a little later."""
    job = Job(project(ways=["uf2"], touch_baud=1200), port="/dev/ttyACM7")
    (job.project.folder / "build/firmware.uf2").write_bytes(b"image")
    seen: list[object] = []

    class Port:
        def close(self) -> None:
            seen.append("closed")

    def opened(url: str, baud: int) -> Port:
        seen.append((url, baud))
        return Port()

    looks = iter([*[[]] * 4, *[[drive]] * 9])
    monkeypatch.setattr(uf2, "open_port", opened)
    monkeypatch.setattr(uf2, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(uf2, "_mounted", lambda: iter(next(looks)))
    choose(job).run(job)
    assert seen == [("/dev/ttyACM7", 1200), "closed"]
    assert (drive / "firmware.uf2").read_bytes() == b"image"


def test_uf2_says_what_to_do_if_no_drive_comes(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uf2, "_mounted", lambda: iter([]))
    monkeypatch.setattr(uf2, "DRIVE_SECONDS", 0.1)
    with pytest.raises(FlashError, match="or give the --port of a board that runs, mount"):
        choose(Job(project(ways=["uf2"], touch_baud=1200)))
    with pytest.raises(
        FlashError, match="as a USB drive: hold BOOTSEL while you plug the cable in,"
    ):
        choose(Job(project(ways=["uf2"]), port="/dev/ttyUSB0"))
    master, slave = os.openpty()
    try:
        job = Job(project(ways=["uf2"], touch_baud=1200), port=os.ttyname(slave))
        (job.project.folder / "build/firmware.uf2").write_bytes(b"image")
        with pytest.raises(
            FlashError, match=r"was told to restart .* mount it, or name it with --to"
        ):
            choose(job).run(job)
        assert termios.tcgetattr(slave)[5] == termios.B1200
    finally:
        os.close(master)
        os.close(slave)


def test_uf2_refuses_a_folder_that_is_no_such_drive(
    project: Callable[..., BoardProject], tmp_path: Path
) -> None:
    with pytest.raises(FlashError, match=r"the drive that has INFO_UF2\.TXT"):
        choose(Job(project(ways=["uf2"]), to=str(tmp_path)))


def test_a_program_that_was_cut_off_is_not_flashed_in_part(tmp_path: Path) -> None:
    whole = elf((ORIGIN, VECTORS), (ORIGIN + 0x20000, CODE))
    (tmp_path / "a.elf").write_bytes(whole)
    assert [len(part.data) for part in load_segments(tmp_path / "a.elf")] == [200, 1001]
    (tmp_path / "a.elf").write_bytes(whole[:-1])
    with pytest.raises(FlashError, match=r"a\.elf is no ELF file .*: it ends within a segment"):
        load_segments(tmp_path / "a.elf")


@pytest.mark.parametrize("kept", [0, 10, 60, 300])
def test_the_memory_of_a_damaged_program_is_a_sentence(
    project: Callable[..., BoardProject], kept: int
) -> None:
    made = project()
    memory = replace(made.board.memory, ram=Region(0x2000_0000, 0x20000))
    manifest = manifest_of(replace(made.board, memory=memory))
    (made.folder / FILE).write_text(manifest.to_json())
    made.elf.write_bytes(made.elf.read_bytes()[:kept])
    with pytest.raises(BuildError, match=r"firmware\.elf is damaged|the ELF has no symbols"):
        linked_memory(made.folder)


def test_drives_are_found_in_folders_of_any_name(tmp_path: Path) -> None:
    names = [f"{tmp_path}/josé/MY DRIVE", f"{tmp_path}/plain", f"{tmp_path}/tab\tand\\"]
    escaped = [re.sub(r"[ \t\\]", lambda c: f"\\{ord(c[0]):03o}", name) for name in names]
    lines = [f"/dev/sd{i} {name} vfat rw 0 0\n" for i, name in enumerate(escaped)]
    odd = os.fsencode(f"{tmp_path}/") + b"\xff"
    mounts = (
        "".join(["proc /proc proc rw 0 0\n", *lines]).encode() + b"/dev/sdx " + odd + b" vfat\n"
    )
    assert list(uf2.mount_points(mounts)) == [*map(Path, names), Path(os.fsdecode(odd))]


def test_mounted_drives_are_folders() -> None:
    assert all(isinstance(place, Path) for place in uf2._mounted())


def test_local_copies_a_program_that_can_be_run(
    project: Callable[..., BoardProject], tmp_path: Path
) -> None:
    manifest = project(ways=["local"])
    stays = choose(Job(manifest)).run(Job(manifest))
    assert str(manifest.elf) in stays
    assert "--port tcp:5000" in stays
    (tmp_path / "bin").mkdir()
    job = Job(manifest, to=str(tmp_path / "bin"))
    choose(job).run(job)
    copy = tmp_path / "bin/firmware.elf"
    assert copy.read_bytes() == manifest.elf.read_bytes()
    assert os.access(copy, os.X_OK)
    assert [p.name for p in (tmp_path / "bin").iterdir()] == ["firmware.elf"]
    with pytest.raises(FlashError, match="cannot write"):
        choose(job).run(Job(manifest, to=str(tmp_path / "no/such/folder")))


def test_scp_copies_and_says_how_to_start(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(scp, "run_tool", lambda command, what: asked.append(list(command)))
    job = Job(project(ways=["scp"]), to="pi@pi4")
    done = choose(job).run(job)
    assert asked == [["scp", "-q", str(job.project.elf), "pi@pi4:mcutrain-firmware"]]
    assert job.project.elf.is_absolute()
    assert "ssh -L 5000:127.0.0.1:5000 pi@pi4 ./mcutrain-firmware --port tcp:5000" in done
    choose(job).run(Job(job.project, to="pi@pi4:/opt/fw"))
    assert asked[1][-1] == "pi@pi4:/opt/fw"
    monkeypatch.chdir(job.project.folder)
    here = replace(job.project, folder=Path())
    choose(job).run(Job(here, to="pi@pi4"))  # scp takes a:b/firmware for a file of the host a
    assert asked[2] == asked[0]
    with pytest.raises(FlashError, match="is no USER@HOST"):
        choose(job).run(Job(job.project, to="-oProxyCommand=x"))
    with pytest.raises(FlashError, match="--way scp needs --to USER@HOST"):
        choose(Job(job.project))


def test_the_first_way_that_has_what_it_needs_is_taken(
    project: Callable[..., BoardProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyocd, "_command", list)
    manifest = project(ways=["pyocd", "local"])
    assert choose(Job(manifest)).name == "local"
    with pytest.raises(FlashError, match=r"pip install 'mcutrain\[pyocd\]'"):
        choose(Job(manifest), "pyocd")
    with pytest.raises(FlashError, match="flashed by pyocd or local, not by uf2"):
        choose(Job(manifest), "uf2")
    with pytest.raises(FlashError, match=r"needs pyOCD.*; or --way uf2 needs"):
        choose(Job(project(ways=["pyocd", "uf2"])))


def test_a_virtual_board_is_not_flashed(project: Callable[..., BoardProject]) -> None:
    with pytest.raises(FlashError, match="board is not flashed: it is a virtual board"):
        choose(Job(project()))


def test_a_missing_tool_is_a_sentence() -> None:
    from mcutrain_host.flashing.job import run_tool

    with pytest.raises(FlashError, match="cannot run no-such-tool: No such file"):
        run_tool(["no-such-tool"], "it")


def test_what_was_not_built_is_a_sentence(project: Callable[..., BoardProject]) -> None:
    manifest = project(ways=["local"])
    manifest.elf.unlink()
    with pytest.raises(ProjectError, match="run `mcutrain build"):
        choose(Job(manifest)).run(Job(manifest))
    assert issubclass(ProjectError, HostError)
