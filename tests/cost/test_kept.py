"""A cost that was worked out before is the same one, and is found only where nothing differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcutrain.cost import kept, schemes
from mcutrain.cost.kept import KeptCosts, code_digest, sources
from mcutrain.cost.schemes import scheme_cost
from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions
from tests.selection.networks import graph_of, scheme_of

SCHEMES = (scheme_of(0, (), 4), scheme_of(2, ((1, 0.5),), 8), scheme_of(3, (), 0))
SCHEME = SCHEMES[1]
CHOICES = ((3, ((1, 0.5),), 8), (2, ((2, 0.5),), 8), (2, ((1, 0.25),), 8), (2, ((1, 0.5),), 4))
OPTIONS = StepOptions()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The schemes for which the network is differentiated from now on."""
    found: list[str] = []
    differentiated = schemes.differentiated

    def noting(graph, scheme, *rest):
        found.append(scheme.to_toml())
        return differentiated(graph, scheme, *rest)

    monkeypatch.setattr(schemes, "differentiated", noting)
    return found


@pytest.mark.parametrize("isa", [None, "dsp", "portable"])
def test_a_kept_cost_is_the_one_that_was_worked_out(isa: str | None, worked_out: list[str]) -> None:
    graph = graph_of("residual", 1)
    first = [scheme_cost(graph, isa)(scheme) for scheme in SCHEMES]
    assert worked_out == [scheme.to_toml() for scheme in SCHEMES]
    again = [scheme_cost(graph, isa)(scheme) for scheme in SCHEMES]
    assert again == first
    assert len(worked_out) == len(SCHEMES)
    assert [list(cost.flash) for cost in again] == [list(cost.flash) for cost in first]
    assert [list(cost.work) for cost in again] == [list(cost.work) for cost in first]
    assert first[0] != first[1]
    assert bool(first[1].flash) == bool(first[1].work) == (isa is not None)


@pytest.mark.parametrize("damage", [b"", b"no cost"])
def test_a_damaged_cost_is_worked_out_again(
    folder: Path, worked_out: list[str], damage: bytes
) -> None:
    graph = graph_of("residual", 1)
    first = scheme_cost(graph)(SCHEME)
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    file.write_bytes(damage)
    assert scheme_cost(graph)(SCHEME) == first
    assert scheme_cost(graph)(SCHEME) == first
    assert len(worked_out) == 2


def test_without_a_cache_every_cost_is_worked_out(folder: Path, worked_out: list[str]) -> None:
    folder.write_text("no folder")
    graph = graph_of("residual", 1)
    assert scheme_cost(graph)(SCHEME) == scheme_cost(graph)(SCHEME)
    assert len(worked_out) == 2


def test_a_scheme_that_cannot_be_trained_is_refused_each_time(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(SchemeError):
            scheme_cost(graph_of("residual", 1))(scheme_of(99, (), 4))
    assert not folder.exists()


def with_other_weight(graph: Graph) -> Graph:
    name = next(n for n in sorted(graph.tensors) if graph.tensors[n].data is not None)
    changed = graph.tensors[name].data.copy()
    changed.flat[0] ^= 1
    tensor = replace(graph.tensors[name], data=changed)
    return replace(graph, tensors={**graph.tensors, name: tensor})


def test_all_that_decides_a_cost_decides_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of("residual", 1)
    asked = [
        (graph, None, OPTIONS, SCHEME),
        (graph_of("residual", 2), None, OPTIONS, SCHEME),
        (with_other_weight(graph), None, OPTIONS, SCHEME),
        (graph, "dsp", OPTIONS, SCHEME),
        (graph, "portable", OPTIONS, SCHEME),
        (graph, None, StepOptions("int16"), SCHEME),
        (graph, None, StepOptions(accumulate=2), SCHEME),
        *((graph, None, OPTIONS, scheme_of(*choice)) for choice in CHOICES),
    ]

    def places() -> set[Path]:
        return {KeptCosts(*facts)._place(scheme) for *facts, scheme in asked}

    before = places()
    assert len(before) == len(asked)
    own = tmp_path / "own.py"
    own.write_text("ALIGN_BYTES = 8\n")
    monkeypatch.setattr(kept, "sources", lambda: (own,))
    assert not before & places()


def test_the_code_of_a_cost_is_all_python_and_the_tables_of_instructions_and_bytes(
    tmp_path: Path,
) -> None:
    names = {path.name for path in sources()}
    assert {"differentiate.py", "lifetimes.py", "conv_2d.py", "kept.py"} <= names
    assert {"code.toml", "dsp.toml", "portable.toml"} <= names
    file = tmp_path / "a.py"
    file.write_text("x = 1")
    first = code_digest((file,))
    file.write_text("x = 2")
    code_digest.cache_clear()
    assert code_digest((file,)) != first
    code_digest.cache_clear()
