"""A folder per class becomes a Split; an unusable file is named."""

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from mcutrain.data import load
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError

Image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")

COLOURS = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}


def put(path: Path, colour: tuple[int, ...], size: tuple[int, int] = (6, 4)) -> Path:
    """An image of one colour; size is (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB" if len(colour) == 3 else "L", size, colour).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, colour in COLOURS.items():
        for i in range(4):
            put(tmp_path / "set" / name / f"{i}.png", colour)
    return tmp_path / "set"


def test_labels_follow_the_sorted_folder_names(folder: Path) -> None:
    split = load(folder, test_share=0.25)
    assert split.names == ("blue", "green", "red")
    assert split.train.x.shape == (9, 4, 6, 3)
    assert len(split.test) == 3
    for part in (split.train, split.test):
        for x, y in zip(part.x, part.y, strict=True):
            assert (x == COLOURS[split.names[y]]).all()


@pytest.mark.parametrize("second", ["test", "val"])
def test_train_and_test_folders_are_kept_apart(tmp_path: Path, second: str) -> None:
    for name, colour in COLOURS.items():
        put(tmp_path / "train" / name / "1.png", colour)
    put(tmp_path / second / "red" / "1.png", (7, 7, 7))
    split = load(tmp_path)
    assert split.train.y.tolist() == [0, 1, 2]
    assert split.test.y.tolist() == [2]
    assert (split.test.x == 7).all()


def test_train_can_be_the_name_of_a_class(tmp_path: Path) -> None:
    for name in ("plane", "train"):
        for i in range(2):
            put(tmp_path / name / f"{i}.png", (1, 2, 3))
    assert load(tmp_path).names == ("plane", "train")


def test_images_become_the_shape_that_was_asked_for(folder: Path) -> None:
    put(folder / "red" / "large.png", (200, 0, 0), size=(60, 50))
    split = load(folder, input_shape=(8, 8, 1))
    assert split.train.x.shape[1:] == (8, 8, 1)
    red = split.train.x[split.train.y == 2]
    assert (red == 60).all()  # round(0.299 * 200)


def test_grey_palette_and_transparent_images_become_rgb(tmp_path: Path) -> None:
    for i in range(2):
        put(tmp_path / "a" / f"{i}.pgm", (9,))
        (tmp_path / "b").mkdir(exist_ok=True)
        Image.new("RGBA", (6, 4), (1, 2, 3, 40)).save(tmp_path / "b" / f"{i}.png")
        Image.new("RGB", (6, 4), (5, 6, 7)).convert("P").save(tmp_path / "b" / f"p{i}.gif")
    split = load(tmp_path)
    assert split.train.x.shape[3] == 3
    assert (split.train.x[split.train.y == 0] == 9).all()


def test_photographs_are_turned_upright(tmp_path: Path) -> None:
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:2] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # orientation: turned by 180 degrees
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png", exif=exif)
    x = load(tmp_path).train.x
    assert (x[:, 0] == 0).all()
    assert (x[:, -1] == 255).all()


def test_hidden_files_are_passed_over(folder: Path) -> None:
    for name in (".0.png", "._1.png", ".DS_Store", "Thumbs.db", "desktop.ini"):
        (folder / "red" / name).write_text("hidden")
    (folder / ".git").mkdir()
    assert len(load(folder).train) == 9


def test_files_that_are_left_out_are_counted_by_their_endings(folder: Path) -> None:
    for name in ("a.HEIC", "b.HEIC", "notes.txt", "README"):
        (folder / "red" / name).write_bytes(b"?")
    put(folder / "4.png", (1, 2, 3))
    notes: list[str] = []
    assert len(load(folder, left_out=notes.append).train) == 9
    assert len(notes) == 1
    assert notes[0].startswith(f"{folder}: 4 files in the class folders are left out, since")
    for count in ("2 .HEIC", "1 .txt", "1 without an ending"):
        assert count in notes[0]
    assert "; 1 file beside the class folders is left out: put each image into" in notes[0]
    with pytest.warns(UserWarning, match=r"2 \.HEIC"):
        load(folder)
    samples: list[str] = []
    load_samples(folder, 12, left_out=samples.append)
    assert samples == notes


def test_a_class_without_images_says_what_it_holds_instead(folder: Path) -> None:
    (folder / "pink").mkdir()
    for i in range(3):
        (folder / "pink" / f"{i}.heif").write_bytes(b"?")
    with pytest.raises(DataError, match=r"pink holds no image: .*3 files in .*: 3 \.heif$"):
        load(folder)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (".jfif", "JPEG"),
        (".JFIF", "JPEG"),
        (".jpe", "JPEG"),
        (".WEBP", "WEBP"),
        (".TIFF", "TIFF"),
        (".Gif", "GIF"),
        (".BMP", "BMP"),
        (".dib", "BMP"),
    ],
)
def test_endings_count_in_any_letters(folder: Path, ending: str, kind: str) -> None:
    picture = Image.new("RGB", (6, 4), COLOURS["red"])
    picture.save(folder / "red" / f"9{ending}", format=kind)
    split = load(folder)
    assert len(split.train) + len(split.test) == 13


def test_a_path_without_a_folder_is_told_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "red")
    Path("broken.png").write_bytes(b"?")
    with pytest.raises(DataError, match=r"^\.: broken\.png is no readable image"):
        load_samples(".", 12)


def test_progress_is_told_for_every_image(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    load(folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i + 1, 12) for i in range(12)]


def test_an_unreadable_image_is_named(folder: Path) -> None:
    (folder / "red" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    with pytest.raises(DataError, match=r"red/bad\.png is no readable image"):
        load(folder)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".tif", ".webp", ".ppm"])
def test_a_damaged_image_is_read_or_named(tmp_path: Path, suffix: str) -> None:
    good = put(tmp_path / "a" / f"1{suffix}", (1, 2, 3)).read_bytes()
    put(tmp_path / "a" / "2.png", (1, 2, 3))
    put(tmp_path / "b" / "1.png", (1, 2, 3))
    random = np.random.default_rng(0)
    for _ in range(40):
        damaged = bytearray(good[: random.integers(1, len(good) + 1)])
        damaged[random.integers(len(damaged))] = random.integers(256)
        (tmp_path / "a" / f"1{suffix}").write_bytes(damaged)
        try:
            load(tmp_path, input_shape=(4, 4, 3))
        except DataError as error:
            assert f"a/1{suffix}" in str(error)  # noqa: PT017 (it may also be read)


def test_an_image_of_too_many_pixels_is_refused_unread(folder: Path) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    for side in (9_000, 10_000, 60_000):  # below and above Pillow's own limits
        ihdr = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        body = chunk(b"IHDR", ihdr) + chunk(b"IDAT", zlib.compress(bytes(99)))
        bomb = b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")
        (folder / "red" / "bomb.png").write_bytes(bomb)
        with pytest.raises(DataError, match=r"red/bomb\.png"):
            load(folder)


def test_pixels_of_16_bits_are_refused(folder: Path) -> None:
    Image.fromarray(np.full((4, 6), 40_000, np.uint16)).save(folder / "red" / "deep.png")
    with pytest.raises(DataError, match=r"red/deep\.png has pixels of mode I.*8 bits"):
        load(folder)


def test_images_of_two_sizes_need_a_shape(folder: Path) -> None:
    put(folder / "red" / "large.png", (200, 0, 0), size=(60, 50))
    with pytest.raises(DataError, match=r"red/large\.png has \(50, 60\) pixels .*\(4, 6\)"):
        load(folder)


def test_an_empty_class_folder_is_named(folder: Path) -> None:
    (folder / "white").mkdir()
    with pytest.raises(DataError, match="class folder white holds no image"):
        load(folder)


@pytest.mark.parametrize(
    ("files", "found", "wanted"),
    [
        ((), "no class folder", "{0}/ONE and {0}/ANOTHER"),
        (("1.png", "2.png"), "no class folder; 2 images without one", "{0}/ONE and {0}/ANOTHER"),
        (("a/1.png",), "one class folder, 'a' with 1 image", "{0}/a and {0}/ANOTHER"),
        (
            ("a/1.png", "a/2.png", "3.png"),
            "one class folder, 'a' with 2 images; 1 image without one",
            "{0}/a and {0}/ANOTHER",
        ),
        (
            ("train/a/1.png", "test/a/1.png"),
            "one class folder in train, 'a' with 1 image",
            "{0}/train/a and {0}/train/ANOTHER",
        ),
    ],
)
def test_a_folder_without_classes_is_refused_with_what_is_there_and_what_is_wanted(
    tmp_path: Path, files: tuple[str, ...], found: str, wanted: str
) -> None:
    for file in files:
        put(tmp_path / file, (1, 2, 3))
    with pytest.raises(DataError) as error:
        load(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: there is {found}: training needs two classes at least, each with a folder of "
        f"its images, such as {wanted.format(tmp_path)}"
    )


def test_a_folder_in_a_class_folder_is_refused(folder: Path) -> None:
    put(folder / "red" / "dark" / "1.png", (9, 0, 0))
    with pytest.raises(DataError, match="red holds the folder 'dark'"):
        load(folder)


def test_a_class_that_is_only_tested_is_refused(tmp_path: Path) -> None:
    for place in ("train/a", "train/b", "test/a", "test/c"):
        put(tmp_path / place / "1.png", (1, 2, 3))
    with pytest.raises(DataError, match="test/'c' is a class without training images"):
        load(tmp_path)


def test_an_empty_test_folder_is_refused(tmp_path: Path) -> None:
    for place in ("train/a", "train/b"):
        put(tmp_path / place / "1.png", (1, 2, 3))
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match="test has no class folders"):
        load(tmp_path)


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 4, 2), (4, 4, 4)])
def test_an_image_shape_that_no_image_can_have_is_refused(
    folder: Path, shape: tuple[int, int, int]
) -> None:
    with pytest.raises(DataError, match="images cannot become"):
        load(folder, input_shape=shape)


def test_a_missing_pillow_is_named_with_its_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"pip install 'mcutrain\[images\]'"):
        load(folder)
