"""A log has whole lines only, whatever becomes of disk and power."""

import json
import os
from pathlib import Path

import pytest
from mcutrain_host.errors import LogError
from mcutrain_host.log import CHANGES, JsonLines, Kept, TensorBoard, last_kept


def test_a_line_is_an_object_and_is_there_at_once(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "log")
    log.write("step", 5, {"loss": 0.5, "name": "Zürich"})
    line = json.loads((tmp_path / "log").read_text(encoding="utf-8"))
    assert line.pop("time") > 1.7e9
    assert line == {"event": "step", "position": 5, "loss": 0.5, "name": "Zürich"}
    log.close()


def test_a_later_run_appends(tmp_path: Path) -> None:
    for position in (1, 2):
        log = JsonLines(tmp_path / "log")
        log.write("step", position, {})
        log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [json.loads(line)["position"] for line in lines] == [1, 2]


@pytest.mark.parametrize("rest", ["{", '{"event": "st', '{"event": "step", "position": 3}'])
def test_what_a_power_cut_left_of_a_line_is_cut_off(tmp_path: Path, rest: str) -> None:
    whole = '{"event": "step"}\n'
    (tmp_path / "log").write_text(whole + rest)
    log = JsonLines(tmp_path / "log")
    log.write("step", 2, {})
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["step", "step"]


def test_another_file_that_is_given_as_log_keeps_its_end(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("years of\nwork")
    log = JsonLines(tmp_path / "notes")
    log.write("step", 2, {})
    log.close()
    assert (tmp_path / "notes").read_text().startswith('years of\nwork\n{"event": "step"')


def test_a_name_that_is_no_unicode_is_written_too(tmp_path: Path) -> None:
    name = os.fsdecode(b"state-\xff.mcts")
    log = JsonLines(tmp_path / "log")
    log.write("pulled", 5, {"file": name})
    log.close()
    assert json.loads((tmp_path / "log").read_text(encoding="utf-8"))["file"] == name


def test_what_was_kept_last_is_found_among_whatever_a_log_holds(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "log")
    log.write("pulled", 5, {"file": "f", "save": 1, "sha256": "aa"})
    log.write("pulled", 9, {"file": "f", "save": 2, "sha256": "bb"})
    log.write("finished", 9, {})
    log.close()
    assert last_kept(tmp_path / "log") == Kept(2, "bb")
    with (tmp_path / "log").open("ab") as file:
        file.write(b'\xff\n[1]\n{"even": "pulled"}\n{"eve')
    assert last_kept(tmp_path / "log") == Kept(2, "bb")
    assert last_kept(tmp_path / "none") is None
    assert last_kept(tmp_path) is None
    assert last_kept(Path("/dev/full")) is None
    assert last_kept(Path("a" * 300)) is None


@pytest.mark.parametrize(
    ("event", "facts"),
    [
        *((event, {}) for event in sorted(CHANGES)),
        ("pulled", {"file": "f"}),
        ("pulled", {"save": "x", "sha256": 1}),
    ],
)
def test_what_was_kept_before_the_board_changed_is_not_known_to_be_kept(
    tmp_path: Path, event: str, facts: dict[str, object]
) -> None:
    log = JsonLines(tmp_path / "log")
    log.write("pulled", 5, {"file": "f", "save": 1, "sha256": "aa"})
    log.write(event, 9, facts)
    log.close()
    assert last_kept(tmp_path / "log") is None


def test_a_full_disk_is_a_sentence() -> None:
    log = JsonLines(Path("/dev/full"))
    with pytest.raises(LogError, match="cannot write the log /dev/full: No space left on device"):
        log.write("step", 1, {})
    log.close()


def test_a_line_that_only_fits_in_part_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    log = JsonLines(path)
    log.write("step", 1, {})
    before = path.read_bytes()
    file = log._file

    class Full:
        """Takes ten bytes and then none."""

        left = 10

        def write(self, data: memoryview) -> int:
            if not self.left:
                raise OSError(28, "No space left on device")
            taken = file.write(data[: self.left])
            self.left = 0
            return taken

        def fileno(self) -> int:
            return file.fileno()

    monkeypatch.setattr(log, "_file", Full())
    with pytest.raises(LogError):
        log.write("step", 2, {})
    assert path.read_bytes() == before
    file.close()


def test_a_log_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no folder"):
        JsonLines(tmp_path / "no" / "log")
    with pytest.raises(LogError, match="it is a folder, give a file"):
        JsonLines(tmp_path)


def test_tensorboard_gets_the_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    log = TensorBoard(tmp_path)
    for position in (1, 2):
        step = {"loss": 1.5, "is_right": True, "cycles": 70, "rate": 0.25}
        log.write("step", position, step)
    log.write("evaluated", 2, {"accuracy": 0.75, "auc": None, "r2": -2.0, "evaluated": 4})
    log.write("saved", 2, {"number": 1})
    log.close()
    (file,) = tmp_path.iterdir()
    found = {}
    for record in records(file.read_bytes()):
        event = Event.FromString(record)
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
    assert found["training/loss", 1] == 1.5
    assert found["training/cycles", 2] == 70
    assert found["test/accuracy", 2] == 0.75
    assert found["test/r2", 2] == -2
    assert len(found) == 2 * 4 + 2


def records(data: bytes) -> list[bytes]:
    """TFRecord: u64 length, u32 check, data, u32 check."""
    found = []
    while data:
        size = int.from_bytes(data[:8], "little")
        found.append(data[12 : 12 + size])
        data = data[16 + size :]
    return found


def test_without_tensorboardx_the_log_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    with pytest.raises(LogError, match=r"pip install 'mcutrain\[tensorboard\]'"):
        TensorBoard(tmp_path)
