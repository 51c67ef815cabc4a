"""`mcutrain report`: what lies in a folder becomes report.html."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcutrain_host.log import JsonLines

from mcutrain.errors import ReportError
from mcutrain.pipeline import prepare
from mcutrain.proxies import kept_ladder, write_ladder
from mcutrain.report.board_log import FEWEST_STEPS, read_log
from mcutrain.report.charts import Bar
from mcutrain.report.collect import collect
from mcutrain.report.content import Report
from mcutrain.report.folder import read_folder
from mcutrain.report.html import sections_of
from mcutrain.report.learning import LearningCurve, Point
from mcutrain.report.write import write
from tests.cli.conftest import Run
from tests.proxies import ladders


def step(loss: float, is_right: bool) -> dict[str, Any]:
    return {"loss": loss, "is_right": is_right, "cycles": 7}


def write_log(path: Path, steps: int = 60) -> None:
    log = JsonLines(path)
    log.write("connected", 0, {"board": "blue pill"})
    log.write("evaluated", 0, {"accuracy": 0.1})
    for i in range(1, steps + 1):
        log.write("step", i, step(2 - i / steps, i > steps / 2))
    log.write("evaluated", steps, {"accuracy": 0.75})
    log.write("finished", steps, {"accuracy": 0.75})
    log.close()


def test_a_report_that_was_written_is_drawn_again(run: Run, report: Report, tmp_path: Path) -> None:
    write(report, tmp_path / "r")
    html = (tmp_path / "r/report.html").read_bytes()
    (tmp_path / "r/report.html").unlink()
    outcome = run("report", "r")
    assert outcome.code == 0, outcome.err
    assert outcome.out == "r/report.html\n"
    assert (tmp_path / "r/report.html").read_bytes() == html
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == ["report.html", "report.json"]


def test_what_lies_beside_a_report_is_added(run: Run, report: Report, tmp_path: Path) -> None:
    write(Report("m"), tmp_path)
    write_log(tmp_path / "train.jsonl")
    (tmp_path / "scheme.toml").write_text('name = "mine"\n')
    values = json.loads((tmp_path / "report.json").read_text())
    assert values["curves"] == []
    facts = run("report", ".", "--json").json
    assert facts["sections"] == ["accuracy", "scheme"]
    found = read_folder(tmp_path)
    assert found.scheme_toml == 'name = "mine"\n'
    assert found.curves[0].name == "on blue pill"
    assert json.loads((tmp_path / "report.json").read_text()) == values
    write(found, tmp_path)
    assert read_folder(tmp_path) == found  # the log is not added twice


def test_an_analysis_and_a_selection_are_read_as_they_are_written(
    report: Report, tmp_path: Path
) -> None:
    write(Report("m"), tmp_path)
    assert report.analysis is not None
    gain = report.analysis.gains["accuracy"]
    analysis = {
        "format": 1,
        "model_digest": "0",
        "method": "training",
        "layers": list(report.analysis.layers),
        "gains": {"accuracy": {"bias": list(gain.bias), "weights": dict(gain.weights), "more": 1}},
    }
    (tmp_path / "analysis.json").write_text(json.dumps(analysis, default=dict))
    found = read_folder(tmp_path)
    assert found.analysis is not None
    assert found.analysis.gains["accuracy"] == gain


def test_a_project_is_reported_from_its_manifest_and_plan(
    run: Run, model: Path, tmp_path: Path
) -> None:
    assert run("generate", model, "--board", "nucleo-f446re", "-o", "p").code == 0
    found = read_folder(tmp_path / "p")
    assert found.memory is not None
    assert found.usage is not None
    manifest = json.loads((tmp_path / "p/manifest.json").read_text())
    assert found.usage.sram_bytes == manifest["board"]["memory"]["sram_bytes"]
    assert found.memory.arena_bytes == manifest["arena_bytes"]
    ends = [b.offset + b.size_bytes for b in found.memory.buffers]
    assert max(ends) == manifest["arena_bytes"]
    assert "Conv2DGradWeight" in " ".join(found.memory.steps)
    assert run("report", "p", "--json").json["sections"] == ["usage", "memory"]


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proxies") / "ladder"
    whole, _ = ladders.front_of(ladders.step())
    write_ladder(ladders.ladder(whole), folder, whole)
    return folder


def test_a_project_with_a_ladder_is_reported_with_each_front(
    run: Run, model: Path, proxies: Path, tmp_path: Path
) -> None:
    """As the step itself says it, but for what kind of buffer each is."""
    flags = ("--scheme", ladders.SCHEME, "--proxies", proxies, "-o", "p")
    assert run("generate", model, *flags).code == 0
    found = read_folder(tmp_path / "p")
    step = prepare(model, ladders.SCHEME, ladder=kept_ladder(proxies))
    expected = collect(step)
    assert [front.name for front in found.fronts] == ["policy", "level 0", "level 1", "level 2"]
    for own, other in zip(found.fronts, expected.fronts, strict=True):
        assert replace(own, memory=None) == replace(other, memory=None)
        assert (own.memory is None) == (own.name == "level 0") == (other.memory is None)
        if own.memory is not None and other.memory is not None:
            buffers = tuple(replace(b, kind="other") for b in other.memory.buffers)
            assert own.memory == replace(other.memory, buffers=buffers, steps=own.memory.steps)
            assert len(own.memory.steps) == len(other.memory.steps)
            assert f"{own.name}:" in own.memory.steps[0]
    assert found.memory is not None
    assert expected.memory is not None
    assert not any(":" in name.removeprefix("scratch:") for name in found.memory.steps)
    assert [b.name for b in found.memory.buffers] == [b.name for b in expected.memory.buffers]
    assert run("report", "p", "--json").json["sections"] == ["usage", "memory", "fronts"]


def test_a_plan_that_says_nothing_of_fronts_is_drawn_without_them(
    run: Run, model: Path, proxies: Path, tmp_path: Path
) -> None:
    """A project of an earlier version; and one whose file was changed is a sentence."""
    flags = ("--scheme", ladders.SCHEME, "--proxies", proxies, "-o", "p")
    assert run("generate", model, *flags).code == 0
    path = tmp_path / "p/plan.csv"
    rows = [row.split(",") for row in path.read_text().splitlines()]
    path.write_text(
        "".join(",".join(row[:5]) + "\n" for row in rows if row[5] in ("front", "step"))
    )
    fronts = read_folder(tmp_path / "p").fronts
    assert [front.memory for front in fronts] == [None] * 4
    (_, section) = list(sections_of(Report("m", memory=None, fronts=fronts, scheme_toml="x")))[::-1]
    assert (len(section.figures), len(section.tables)) == (0, 1)
    path.write_text("id,lower,upper,size,offset,front\na,0,1,4,0,step\nb,1,99999999,4,0,policy\n")
    assert "lives until step" in run("report", "p").sentence


def test_a_log_is_averaged_between_tests(tmp_path: Path) -> None:
    write_log(tmp_path / "train.jsonl", 100)
    curve = read_log(tmp_path / "train.jsonl")
    assert curve is not None
    assert curve.unit == "sample"
    tests = [(p.at, p.test_accuracy) for p in curve.points if p.test_accuracy is not None]
    assert tests == [(0, 0.1), (100, 0.75)]
    means = [p for p in curve.points if p.loss is not None]
    assert len(means) == 100 / FEWEST_STEPS
    assert [p.train_accuracy for p in means] == [0, 0, 0.5, 1, 1]


def test_measures_of_a_test_are_read_where_they_are_numbers(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "train.jsonl")
    tested = {"loss": 9.0, "mae": 2.5, "r2": -3.5, "auc": None, "f1": "x", "iou": math.nan}
    log.write("evaluated", 5, tested)
    log.close()
    curve = read_log(tmp_path / "train.jsonl")
    assert curve is not None
    assert curve.points[0].measures == {"loss": 9.0, "mae": 2.5, "r2": -3.5}


def test_steps_after_a_restart_hold(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "train.jsonl")
    for i in range(1, 31):
        log.write("step", i, step(9, False))
    log.write("restarted", 10, {"was": 30})
    for i in range(11, 21):
        log.write("step", i, step(1, True))
    log.close()
    curve = read_log(tmp_path / "train.jsonl")
    assert curve is not None
    assert [(p.at, p.train_accuracy, p.loss) for p in curve.points] == [(20, 0.5, 5)]


def test_a_test_at_the_place_of_a_restart_holds_and_one_behind_it_does_not(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "train.jsonl")
    for position, accuracy in ((10, 0.5), (20, 0.9)):
        log.write("evaluated", position, {"accuracy": accuracy})
    log.write("restarted", 10, {"was": 20})
    log.close()
    curve = read_log(tmp_path / "train.jsonl")
    assert curve is not None
    assert [(p.at, p.test_accuracy) for p in curve.points] == [(10, 0.5)]


def test_a_logs_curve_stands_beside_one_over_epochs(tmp_path: Path) -> None:
    """And in the place of an earlier one over samples."""
    old = [
        LearningCurve("on board", (Point(0, 0.1), Point(1, 0.6)), unit=u)
        for u in ("epoch", "sample")
    ]
    write(Report("m", curves=tuple(old)), tmp_path)
    log = JsonLines(tmp_path / "train.jsonl")
    log.write("evaluated", 300, {"accuracy": 0.7})
    log.close()
    found = read_folder(tmp_path).curves
    assert [(c.unit, c.points[-1].at) for c in found] == [("epoch", 1), ("sample", 300)]


def test_what_an_elastic_run_chose_is_drawn_over_time(tmp_path: Path) -> None:
    """A choice behind the place where a run went on was not made."""
    write(Report("m"), tmp_path)
    log = JsonLines(tmp_path / "train.jsonl")
    log.write("step", 1, step(1, True))
    log.write("selected", 20, {"tensors": ["a"], "importance": {"a": 0.75, "b": 0.25, "c": 0.0}})
    log.write("selected", 60, {"tensors": ["c"]})
    log.write("restarted", 40, {"was": 61})
    log.write("selected", 60, {"tensors": ["b", "a"]})
    log.close()
    found = read_folder(tmp_path).choices
    assert found is not None
    assert found.tensors == ("a", "b", "c")
    assert [(one.at, one.tensors) for one in found.made] == [(20, ("a",)), (60, ("b", "a"))]
    (section,) = sections_of(Report("m", choices=found))
    (figure,) = section.figures
    cells = {(bar.x[0], bar.y[0]): bar for bar in figure.chart.marks if isinstance(bar, Bar)}
    shown = [bar.says.splitlines() for bar in cells.values()]
    assert len(cells) == 6
    assert shown[0] == ["a", "from sample 21 on", "trained", "75.0 % of what helped"]
    assert [text[2] for text in shown] == [
        "trained",
        *["left out"] * 2,
        *["trained"] * 2,
        "left out",
    ]
    inks = {text[2]: bar.ink for text, bar in zip(shown, cells.values(), strict=True)}
    assert inks["trained"] != inks["left out"]
    assert "2 times 1 to 2 of 3 tensors were chosen" in section.says
    again = JsonLines(tmp_path / "train.jsonl")
    again.write("connected", 0, {})
    again.close()
    report = read_folder(tmp_path)
    assert report.choices is None  # a run that began anew, and has chosen nothing yet


def test_a_projects_tensors_are_drawn_in_its_order(run: Run, model: Path, tmp_path: Path) -> None:
    flags = ("--scheme", "last:2", "--elastic", "-o", "p")
    assert run("generate", model, *flags).code == 0
    names = json.loads(Path("p/manifest.json").read_text())["elastic"]["tensors"]
    log = JsonLines(tmp_path / "p/train.jsonl")
    log.write("selected", 4, {"tensors": names[3:1:-1]})
    log.close()
    assert run("profile", model, "--scheme", "last:2", "-o", "p/profile.json").code == 0
    found = read_folder(tmp_path / "p")
    assert found.choices is not None
    assert list(found.choices.tensors) == names
    assert found.profile is not None
    assert not found.profile.is_counted
    assert [t.name for t in found.profile.tensors] == names
    sections = run("report", "p", "--json").json["sections"]
    assert {"choices", "profile"} <= set(sections)
    html = Path("p/report.html").read_text()
    assert "by the instruction model: forward and loss" in html


@given(st.integers(1, 4000))
def test_a_log_may_end_within_a_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    path.unlink(missing_ok=True)
    write_log(path, 30)
    path.write_bytes(path.read_bytes()[:-cut])
    read_log(path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("train.jsonl", "{}\n", "line 1 is no event of `mcutrain train`"),
        ("train.jsonl", "\n", "line 1 is no JSON"),
        ("train.jsonl", '{"event": "step", "position": -1}\n', "position is '-1'"),
        ("train.jsonl", '{"event": "evaluated", "position": 1}\n', "accuracy is 'None'"),
        ("train.jsonl", '{"event": "selected", "position": 1}\n', "tensors is 'None'"),
        (
            "train.jsonl",
            '{"event": "selected", "position": 1, "tensors": [], "importance": {"a": -1}}\n',
            "a is '-1'",
        ),
        ("profile.json", "[]", "is no profile of `mcutrain profile -o`"),
        ("profile.json", '{"nodes": 3}', "nodes is 3"),
        ("analysis.json", "[]", "is no analysis of `mcutrain analyze`"),
        ("analysis.json", '{"gains": {"accuracy": 3}}', "accuracy is 3, not a table"),
        ("selection.json", "{}", "selection.json"),
        ("report.json", '{"model": 3}', "report.json.model is 3, not a text"),
        ("report.json", "", "report.json is no JSON"),
        ("scheme.toml", b"\xff\xfe", "scheme.toml is no text"),
    ],
)
def test_a_damaged_file_is_named(
    run: Run, tmp_path: Path, name: str, content: str | bytes, says: str
) -> None:
    write_plain(tmp_path / "report.json", '{"model": "m"}')
    write_plain(tmp_path / name, content)
    sentence = run("report", tmp_path).sentence
    assert says in sentence
    assert name in sentence
    assert not (tmp_path / "report.html").exists()


def write_plain(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("manifest.json", "{}", "manifest.json: "),
        ("manifest.json", "3", "manifest.json is 3, not a table"),
        ("plan.csv", "id,lower,upper,size,offset\na,0,1,4,x\n", "plan.csv: line 2"),
        ("plan.csv", "id,lower,upper,size,offset\na,0,999999999,4,0\n", "lives until step"),
        ("plan.csv", "id,lower,upper,size\na,0,1,4\n", "plan.csv: "),
    ],
)
def test_a_damaged_project_is_named(
    run: Run, model: Path, tmp_path: Path, name: str, content: str, says: str
) -> None:
    assert run("generate", model, "-o", "p").code == 0
    write_plain(tmp_path / "p" / name, content)
    assert says in run("report", "p").sentence


def test_a_folder_without_a_report_is_refused(run: Run, tmp_path: Path) -> None:
    assert run("report", "nowhere").sentence == "there is no folder nowhere"
    assert "holds neither a report.json" in run("report", tmp_path).sentence


def test_nothing_is_left_half_written(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Report("old"), tmp_path)
    before = (tmp_path / "report.html").read_bytes()

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ReportError, match=r"cannot write .*report\.json: No space left"):
        write(report, tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
