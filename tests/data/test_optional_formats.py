"""FLAC, Ogg, MP3 and Parquet give what WAV and CSV files give, or a sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.packages import OPTIONAL

from mcutrain.cli.needed import check_packages
from mcutrain.data import InputOrder, load, read_samples
from mcutrain.errors import DataError, McutrainError

KWS, WINDOW = (49, 10, 1), (1, 4, 2)
RATE = 16_000


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    """The same noise of two classes as WAV, FLAC, Ogg and MP3, a folder each."""
    soundfile = pytest.importorskip("soundfile")
    random = np.random.default_rng(0)
    for word in "ab":
        for i in range(2):
            sound = random.integers(-9000, 9000, RATE).astype(np.int16)
            for kind in ("wav", "flac", "ogg", "mp3"):
                path = tmp_path / kind / word / f"{i}.{kind}"
                path.parent.mkdir(parents=True, exist_ok=True)
                soundfile.write(path, sound, RATE)
    return tmp_path


def test_flac_gives_the_numbers_of_wav_and_lossy_sounds_nearly(sounds: Path) -> None:
    wav, flac = (load(sounds / kind, input_shape=KWS).train.x for kind in ("wav", "flac"))
    assert wav.tobytes() == flac.tobytes()
    samples = read_samples(sounds / "wav/a/0.wav", RATE, 15_840)
    assert read_samples(sounds / "flac/a/0.flac", RATE, 15_840).tolist() == samples.tolist()
    assert len(samples) == 15_840
    of = {kind: load(sounds / kind, input_shape=(RATE,)).train.x for kind in ("wav", "ogg", "mp3")}
    for kind in ("ogg", "mp3"):
        assert np.corrcoef(of["wav"].ravel(), of[kind].ravel())[0, 1] > 0.5
        assert of[kind].tobytes() != of["wav"].tobytes()


def test_a_front_end_hears_flac_as_wav_and_refuses_what_is_lossy(sounds: Path) -> None:
    order = InputOrder.own(KWS).with_frontend("mfcc")
    made = [load(sounds / kind, order=order).train.x.tobytes() for kind in ("wav", "flac")]
    assert made[0] == made[1]
    with pytest.raises(DataError, match=r"a/0.ogg is lossy, and decoders make other bits"):
        load(sounds / "ogg", order=order)


def test_other_flac_files_are_refused_with_what_they_hold(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    cases = {
        "stereo": (np.zeros((RATE, 2), np.int16), RATE, "PCM_16", "has 2 channels of 16-bit PCM"),
        "wide": (np.zeros(RATE, np.int32), RATE, "PCM_24", "has 1 channels of 24-bit PCM"),
        "slow": (np.zeros(RATE, np.int16), 8000, "PCM_16", "PCM at 8,000 Hz"),
    }
    for name, (sound, rate, kind, sentence) in cases.items():
        file = tmp_path / f"{name}.flac"
        soundfile.write(file, sound, rate, subtype=kind)
        with pytest.raises(DataError, match=sentence):
            read_samples(file, RATE, 100)
    soundfile.write(tmp_path / "a.flac", np.zeros(9, np.int16), RATE)
    for name, content in {
        "cut.flac": (tmp_path / "a.flac").read_bytes()[:20],
        "no.flac": b"fLaC",
        "empty.mp3": b"",
        "wav.ogg": b"hello",
    }.items():
        for word in "ab":
            (tmp_path / name / word).mkdir(parents=True)
            (tmp_path / name / word / name).write_bytes(content)
            (tmp_path / name / word / f"1{name}").write_bytes(content)
        with pytest.raises(DataError, match=rf"a/1?{name} (is no readable|holds no sound)"):
            load(tmp_path / name, input_shape=KWS)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    rows = [f"{i},{i / 8},{'ab'[i // 20 % 2]},{i // 10},{i % 3}" for i in range(80)]
    path = tmp_path / "set.csv"
    path.write_text("\n".join(["x,y,label,who,load", *rows]))
    return path


def as_parquet(csv: Path, **more: list[object]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from pyarrow import csv as reader

    table = reader.read_csv(csv)
    for name, values in more.items():
        table = table.append_column(name, pyarrow.array(values))
    parquet.write_table(table, csv.with_suffix(".parquet"))
    return csv.with_suffix(".parquet")


@pytest.mark.parametrize(
    "options",
    [{}, {"split_by": "who"}, {"targets": "load", "split_by": "who"}, {"targets": "1"}],
    ids=str,
)
def test_parquet_gives_what_csv_gives(csv: Path, options: dict[str, str]) -> None:
    if "targets" in options:
        csv.write_text(csv.read_text().replace("label", "time"))
    values = 4 - len({"targets", "split_by"} & options.keys())
    both = (load(file, input_shape=(4, values), **options) for file in (csv, as_parquet(csv)))
    split, same = both
    assert len(split.test)
    assert split.names == same.names
    for one, other in ((split.train, same.train), (split.test, same.test)):
        assert one.x.tobytes() == other.x.tobytes()
        assert one.y.tobytes() == other.y.tobytes()


def test_parquet_in_class_folders_and_what_it_holds_too_much(csv: Path, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for word in "ab":
        for i in range(2):
            place = tmp_path / "set" / word / f"{i}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pyarrow.table({"0": range(8), "1": [True, False] * 4}), place)
    split = load(tmp_path / "set", input_shape=WINDOW)
    assert split.train.x[0, :, :, 0].tolist() == [[0, 1], [1, 0], [2, 1], [3, 0]]
    wrong: list[object] = [None, [1, 2], "seven", float("nan")]
    for value, said in zip(wrong, ("''", r"'\[1, 2\]'", "'seven'", "'nan'"), strict=True):
        column = pyarrow.array([value])
        parquet.write_table(pyarrow.table({"x": column, "label": ["a"]}), tmp_path / "bad.parquet")
        with pytest.raises(DataError, match=f"bad.parquet: row 1 has {said} in column 1"):
            load(tmp_path / "bad.parquet", input_shape=(1,))
    whole = as_parquet(csv).read_bytes()
    for content in (b"", b"PAR1", whole[:200], whole[:-30] + whole[-10:], whole[:50] + whole[60:]):
        (tmp_path / "bad.parquet").write_bytes(content)
        with pytest.raises(DataError, match="no readable Parquet file"):
            load(tmp_path / "bad.parquet", input_shape=WINDOW)


def test_a_table_that_unpacks_to_more_than_a_set_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("mcutrain.data._parquet.MAX_SET_BYTES", 800)
    for rows in (200, 201):
        parquet.write_table(pyarrow.table({"x": [0] * rows}), tmp_path / "set.parquet")
        sentence = "names no column|no column of labels" if rows == 200 else "201 rows of 1 columns"
        with pytest.raises(DataError, match=sentence):
            load(tmp_path / "set.parquet", input_shape=(1,))


def test_times_of_nanoseconds_are_no_channel(tmp_path: Path) -> None:
    """As pandas writes them; Python has no such times."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for kind in (
        *(pyarrow.timestamp("ns"), pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("s")),
        *(pyarrow.duration("ns"), pyarrow.time64("ns"), pyarrow.date32()),
    ):
        times = pyarrow.array([*range(1, 40), None], kind)
        for name in ("timestamp", "when"):
            table = pyarrow.table({name: times, "x": range(40), "label": ["a", "b"] * 20})
            parquet.write_table(table, tmp_path / "set.parquet")
            if name == "timestamp":
                assert load(tmp_path / "set.parquet", input_shape=(1,)).train.x.shape[1:] == (1,)
                continue
            with pytest.raises(DataError, match=r"row 1 has .* in column 1: save a number"):
                load(tmp_path / "set.parquet", input_shape=(1,))


@pytest.mark.parametrize(
    ("module", "file", "extra"), [("soundfile", "a.flac", "sounds"), ("pyarrow", "a.pq", "parquet")]
)
def test_a_missing_package_is_a_sentence_that_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, file: str, extra: str
) -> None:
    for word in "ab":
        (tmp_path / "set" / word).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "set" / word / f"{i}{file}").write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    kind, absent = type(OPTIONAL[module]), {module}
    monkeypatch.setattr(kind, "is_installed", property(lambda package: package.name not in absent))
    with pytest.raises(DataError, match=rf"needs the package {module}.*'mcutrain\[{extra}\]'"):
        load(tmp_path / "set", input_shape=KWS)
    check_packages("simulate", {"data": tmp_path / "set"})  # one alone is left to its reader
    absent.add("unicorn")
    with pytest.raises(McutrainError, match=f"{extra},virtual"):
        check_packages("simulate", {"data": tmp_path / "set", "emulator": True})
