"""Lists of class names as people and files write them."""

from pathlib import Path

import pytest

from mcutrain.data import parse_names, read_names
from mcutrain.errors import DataError

NAMES = ("yes", "no", "stop")


@pytest.mark.parametrize(
    "text",
    [
        "yes\nno\nstop\n",
        "\ufeffyes\r\n\r\nno\r\n stop ",
        "0 yes\n1 no\n2 stop\n",
        "0: yes\n1: no\n2: stop",
        "yes, no,stop",
        '["yes", "no", "stop"]',
        "('yes', 'no', 'stop')",
        "{0: 'yes', 1: 'no', 2: 'stop'}",
        '{"2": "stop", "0": "yes", "1": "no"}',
        '{"no": 1, "stop": 2, "yes": 0}',
    ],
)
def test_names_are_read_however_they_are_written(text: str) -> None:
    assert parse_names(text.encode()) == NAMES


def test_numbers_that_are_not_the_lines_own_belong_to_the_names() -> None:
    assert parse_names(b"0 dogs\n3 cats") == ("0 dogs", "3 cats")
    assert parse_names(b"1 yes\n0 no") == ("1 yes", "0 no")
    assert parse_names(b"3") == ("3",)


def test_a_dictionary_with_a_gap_is_no_list_of_names() -> None:
    assert parse_names(b"{0: 'yes', 2: 'stop'}") == ("{0: 'yes'", "2: 'stop'}")


@pytest.mark.parametrize("text", ["yes\nyes", "['a', 'a']", "a,,b"])
def test_names_that_cannot_be_told_apart_or_printed_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"used 2 times|is empty"):
        parse_names(text.encode())


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 50_000 + "}" * 50_000, "[1, 2.5]", "{}"])
def test_absurd_texts_are_no_lists_but_no_error_of_ours(text: str) -> None:
    assert len(parse_names(text.encode())) in (1, 2)


def test_a_file_may_hold_a_dictionary(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text('{"yes": 0, "no": 1, "stop": 2}')
    assert read_names(str(tmp_path / "labels.json")) == NAMES
    assert read_names("yes,no, stop") == NAMES
