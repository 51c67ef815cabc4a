"""The tables of operators say what the code reads."""

from pathlib import Path

import pytest

from mcutrain.formats import operators

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_has_the_tables_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.endswith(operators.markdown()), (
        "mcutrain operators --markdown prints other tables than docs/operators.md has"
    )


@pytest.mark.parametrize("file_format", [".tflite", ".onnx"])
def test_what_is_read_in_one_way_only_has_a_reason(file_format: str) -> None:
    for one in operators.known()[file_format]:
        assert bool(one.reason) == (one.int8 != one.float), one


def test_common_operators_are_known() -> None:
    known = operators.known()
    tflite = {one.name: one for one in known[".tflite"]}
    onnx = {one.name: one for one in known[".onnx"]}
    assert tflite["CONV_2D"].int8
    assert tflite["CONV_2D"].float
    assert onnx["BatchNormalization"].float
    assert not onnx["BatchNormalization"].int8
