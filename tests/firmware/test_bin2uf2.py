"""firmware/tools/bin2uf2.c packs any image so that it can be unpacked again."""

import random
import struct
import subprocess

import pytest

from mcutrain.target import FIRMWARE

ADDRESS = 0x10000000
FAMILIES = (0xE48BFF56, 0xE48BFF59)


@pytest.fixture(scope="module")
def bin2uf2(c_compilers, tmp_path_factory):
    tool = tmp_path_factory.mktemp("tool") / "bin2uf2"
    source = FIRMWARE / "tools" / "bin2uf2.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run([*c_compilers[0], *flags, str(source), "-o", str(tool)], check=True)
    return tool


def run(tool, *arguments):
    return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60)


def unpack(packed, family):
    """The image in a UF2 file, whose blocks must be whole and in order."""
    image = b""
    blocks = [packed[i : i + 512] for i in range(0, len(packed), 512)]
    for i, block in enumerate(blocks):
        header = struct.unpack("<8I", block[:32])
        position = (ADDRESS + 256 * i, 256, i, len(blocks))
        assert header == (0x0A324655, 0x9E5D5157, 0x2000, *position, family)
        assert block[508:] == struct.pack("<I", 0x0AB16F30)
        assert block[32 + 256 : 508] == bytes(220)
        image += block[32 : 32 + 256]
    return image


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
def test_unpacked_image_is_the_packed_one(bin2uf2, tmp_path, count, family):
    content = random.Random(count).randbytes(count)
    image, packed = tmp_path / "image.bin", tmp_path / "image.uf2"
    image.write_bytes(content)
    assert run(bin2uf2, hex(ADDRESS), hex(family), image, packed).returncode == 0
    assert unpack(packed.read_bytes(), family) == content + bytes(-count % 256)


def test_wrong_arguments_are_refused_with_a_sentence(bin2uf2, tmp_path):
    empty = tmp_path / "empty.bin"
    empty.write_bytes(b"")
    for address, family in (
        ("0x10000001", "1"),
        ("flash", "1"),
        ("0x10000000", "1"),
        ("0", "Pico"),
    ):
        done = run(bin2uf2, address, family, empty, tmp_path / "x.uf2")
        assert done.returncode == 1
        assert done.stderr.startswith("bin2uf2: ")
    assert run(bin2uf2, "0x10000000").returncode == 2
