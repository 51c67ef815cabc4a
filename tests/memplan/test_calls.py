"""Kernel calls whose numbers cannot be written in C are refused with the node's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.ir.op import INT32_MAX, KernelCall, Param
from mcutrain.memplan.calls import node_call


class Numbered:
    """An operator with one number in its call."""

    def __init__(self, name: str, value: int) -> None:
        self.call = KernelCall("k", "f", (Param(name, value),), ())

    def kernel(self, types: Any, results: Any) -> KernelCall:
        return self.call


def call_of(op: Numbered) -> KernelCall:
    graph = SimpleNamespace(types=lambda names: ())
    return node_call(graph, SimpleNamespace(name="block/conv", op=op, inputs=(), outputs=()))


def test_a_number_of_32_bits_is_taken_and_the_next_is_refused_each_time() -> None:
    for value in (INT32_MAX, -INT32_MAX):
        fits = Numbered("mult_q31", value)
        assert call_of(fits) is fits.call
    for value in (INT32_MAX + 1, -INT32_MAX - 1):
        beyond = Numbered("mult_q31", value)
        for _ in range(2):
            with pytest.raises(UnsupportedError) as caught:
                call_of(beyond)
            assert str(caught.value).startswith(
                f"node 'block/conv' (Numbered) cannot be computed: its mult_q31 is {value}, beyond"
            )


def test_a_salt_is_unsigned() -> None:
    salted = Numbered("weight_salt", INT32_MAX + 1)
    assert call_of(salted) is salted.call
