"""Tables and sentences at the width of a terminal: numbers and words stay whole."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mcutrain.cli import compare, output
from mcutrain.cli.output import _in_lines
from mcutrain.cli.tables import LEAST_NAME, TextTable
from mcutrain.demo import MODEL
from mcutrain.report.learning import Compared
from tests.cli.conftest import Run

SCREEN = Console(width=500, file=io.StringIO())
NAMES = st.text("abcdefgh/", min_size=1, max_size=40)
NUMBERS = st.integers(0, 10**9).map(lambda n: f"{n:,}")
WIDE = ",".join(f"{i}:0.125" for i in range(25))


@st.composite
def tables(draw: st.DrawFn) -> TextTable:
    """A name, perhaps a sentence, and numbers."""
    count = draw(st.integers(0, 8))
    titles = draw(
        st.lists(
            st.sampled_from(["a", "bytes", "step by step", "x y"]), min_size=count, max_size=count
        )
    )
    rows = draw(
        st.lists(st.tuples(NAMES, *(NUMBERS for _ in range(count))), min_size=1, max_size=4)
    )
    extra = draw(
        st.lists(st.sampled_from([f"{t}{i}" for i, t in enumerate(titles)] or ["no"]), unique=True)
    )
    columns = ("name", *(f"{title}{i}" for i, title in enumerate(titles)))
    return TextTable(columns, tuple(rows), 1, (0,), tuple(e for e in extra if e in columns))


@given(tables(), st.integers(35, 200))
def test_a_table_fits_and_all_that_it_shows_is_whole(table, width):
    lines = list(table.lines(SCREEN, width))
    assert all(cell_len(line) <= width for line in lines if not line.startswith("left out"))
    *_, last = lines
    gone = last.partition(": ")[2].split(", ") if last.startswith("left out") else []
    assert gone == list(table.extra[: len(gone)])
    words = " ".join(lines[: len(lines) - bool(gone)]).split()
    for i, title in enumerate(table.columns):
        if title in gone:
            continue
        assert set(title.split()) <= set(words)
        for row in table.rows:
            if i:
                assert row[i] in words
            elif row[0] not in words:
                cut = [w for w in words if w.endswith("…") and row[0].startswith(w[:-1])]
                assert cut
                assert max(map(cell_len, cut)) >= LEAST_NAME


@given(tables())
def test_without_a_terminal_nothing_is_left_out(table):
    lines = list(table.lines(SCREEN, None))
    assert len(lines) == 2 + len(table.rows)
    for line, row in zip(lines[2:], table.rows, strict=True):
        assert line.split() == list(row)


@given(tables(), st.integers(35, 200))
def test_a_table_that_fits_is_as_it_always_is(table, width):
    usual = list(table.lines(SCREEN, None))
    if max(map(cell_len, usual)) <= width:
        assert list(table.lines(SCREEN, width)) == usual


def test_columns_are_left_out_in_their_order_and_no_more_than_must_be():
    table = TextTable(
        ("name", "one", "two", "three"),
        (("a" * 30, "1,000,000", "2,000,000", "3,000,000"),),
        names=(0,),
        extra=("two", "one"),
    )
    assert [line.split() for line in table.lines(SCREEN, 48)] == [
        ["name", "one", "two", "three"],
        ["─" * 47],
        ["a" * 13 + "…", "1,000,000", "2,000,000", "3,000,000"],
    ]
    last = list(table.lines(SCREEN, 40))[-1]
    assert last == "left out in 40 columns: two"
    assert list(table.lines(SCREEN, 27))[-1] == "left out in 27 columns: two, one"


def test_a_column_is_left_out_before_words_are_broken_apart():
    table = TextTable(("shape", "more"), (("8 → 16 → 32", "1,000,000"),), left=1, extra=("more",))
    lines = list(table.lines(SCREEN, 17))
    assert " 8 → 16 → 32" in lines
    assert lines[-1] == "left out in 17 columns: more"


def test_numbers_that_do_not_fit_stand_below():
    table = TextTable(("name", "one", "two"), (("a", "1,000,000", "2,000,000"),))
    shown = [line.split() for line in table.lines(SCREEN, 17)]
    assert shown == [
        ["name", "one"],
        ["─" * 15],
        ["a", "1,000,000"],
        ["name", "two"],
        ["─" * 15],
        ["a", "2,000,000"],
    ]


def test_sentences_in_a_table_break_at_spaces():
    table = TextTable(("what", "why"), (("a", "one two three four five"),), left=2)
    text = "\n".join(table.lines(SCREEN, 20))
    assert max(map(cell_len, text.splitlines())) <= 20
    assert {"one", "two", "three", "four", "five"} <= set(text.split())


def rows() -> list[Compared]:
    one = Compared(
        "biases only", WIDE, (0.5, 0.625), 1_234_567, 1, 1, 1_181_812, 5_000, 123_456_789
    )
    return [
        one,
        Compared("head only", "head", (0.25, 0.5), 12_376, 1, 1, 181_812, 50_000, 5_766_232),
    ]


@pytest.mark.parametrize("columns", ["80", "120", None])
def test_compare_breaks_nothing(columns, monkeypatch, capsys):
    if columns is None:
        monkeypatch.delenv("COLUMNS")
    else:
        monkeypatch.setenv("COLUMNS", columns)
    compare._print(SimpleNamespace(rows=rows()), None)  # type: ignore[arg-type]
    text = capsys.readouterr().out
    table = text.partition("SRAM: ")[0]
    for number in ("1,234,567", "12,376", "123,456,789", "5,766,232"):
        assert number in table.split()
    assert "biases only" in table
    assert "head only" in table
    assert len([line for line in table.splitlines() if "only" in line]) == 2
    if columns is None:
        assert WIDE in table
    else:
        assert max(map(cell_len, table.splitlines())) <= int(columns)
        assert "…" in table


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [("info",), ("plan", "--scheme", "last:6")])
def test_commands_fit_a_terminal(columns, command, run: Run, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    whole = set(run(*command[:1], MODEL, *command[1:]).out.split())
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(output, "prose_width", lambda stream, console: columns)
    shown = run(*command[:1], MODEL, *command[1:]).out
    assert max(map(cell_len, shown.splitlines())) <= columns
    note = {"left", "out", "in", f"{columns}", "columns:", "weight,", "bytes"}
    assert {w for w in shown.split() if not re.fullmatch("─+|.*…", w)} <= whole | note


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        (
            "  step        one two three",
            ["  step        one", "              two", "              three"],
        ),
        ("a sentence of words", ["a sentence of words"]),
        ("a sentence of words, long", ["a sentence of words,", "long"]),
        (
            "used  3 bytes: mcutrain simulate --scheme last:9",
            ["used  3 bytes:", "      mcutrain simulate --scheme last:9"],
        ),
        ("averyveryverylongword-and-more", ["averyveryverylongword-and-more"]),
    ],
)
def test_a_sentence_breaks_at_spaces_below_itself(text, lines):
    assert _in_lines(text, 20).splitlines() == lines
    assert _in_lines(text, None) == text


def test_a_file_or_a_pipe_gets_sentences_in_one_line(capsys):
    sentence = "word " * 100
    output.show_prose(sentence)
    output.say(sentence)
    printed = capsys.readouterr()
    assert printed.out.strip() == printed.err.strip() == sentence.strip()


def test_a_terminal_gets_sentences_in_its_width(monkeypatch, capsys):
    monkeypatch.setattr(output, "prose_width", lambda stream, console: 40)
    output.say("note: " + "word " * 30)
    output.show_prose("label     " + "word " * 30)
    printed = capsys.readouterr()
    assert max(map(len, (printed.err + printed.out).splitlines())) <= 40
    assert printed.out.splitlines()[1].startswith(" " * 10 + "word")


@pytest.mark.parametrize(
    ("said", "columns"), [("100", 100), ("²", None), ("0", None), ("", None), ("٣", 3)]
)
def test_columns_of_the_environment_are_taken_if_they_are_a_number(said, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", said)
    assert output.table_width() == columns
