"""Every kind of file in the cache may be damaged: the next run makes it again, to the same bits."""

from __future__ import annotations

import ctypes
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import mcutrain_host
import numpy as np
import pytest
from mcutrain_host.cache import is_sound
from mcutrain_host.toolchain import shared_library

from mcutrain.analysis.front import Activations, all_cuts, trunk
from mcutrain.analysis.store import Store, analysis_folder
from mcutrain.autodiff import differentiate
from mcutrain.codegen import generate
from mcutrain.errors import BuildError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.build import Compiler, build_library
from mcutrain.sparse import UpdateScheme, find_head, resolve
from tests.host.test_cache import DAMAGES
from tests.simulation.networks import Network, planned, rates, same, samples

COUNTER = Path(mcutrain_host.__file__).parent / "virtual" / "counter.c"
CLASSES = 3
QUICK = ("-O0",)
"""Flags of objects that are made again and again, of portable bodies, which need no header of
intrinsics; what is kept of them does not depend on it."""


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Not the objects that all tests share: some of these are damaged."""
    folder = tmp_path_factory.mktemp("damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCUTRAIN_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def graph() -> Graph:
    net = Network((5, 5, 3), seed=2)
    return net.graph(net.conv(net.mean(net.conv(net.x, 4, same(3), relu=True)), CLASSES))


@pytest.fixture(scope="module")
def plan(graph: Graph) -> TrainingPlan:
    updates = resolve(UpdateScheme(), graph)
    return planned(differentiate(graph, find_head(graph).name, updates, SoftmaxCrossEntropy))


@pytest.mark.slow
def test_a_compiler_with_flags_of_its_own_has_its_own_library(
    plan: TrainingPlan,
    c_compilers: list[tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path))  # others damage what lies in theirs
    project, command = generate(plan, "any"), c_compilers[0]
    plain, other = (Compiler((*command, *flags), "CC") for flags in ((), ("-DOTHER",)))
    paths = [
        build_library(project, c, portable=True, extra_flags=QUICK) for c in (plain, plain, other)
    ]
    assert paths[0] == paths[1] != paths[2]


def damage(paths: list[Path], kind: str) -> None:
    """The same at every run of the tests. A new file, as after a crash: others have it mapped."""
    draw = random.Random(zlib.crc32(kind.encode()))
    for path in paths:
        data = DAMAGES[kind](path.read_bytes(), draw)
        path.unlink()
        path.write_bytes(data)
        assert not is_sound(path)


def trained(plan: TrainingPlan) -> bytes:
    x, labels = samples(plan.training.forward, 6, CLASSES)
    simulator = CompiledSimulator(plan, portable=True, extra_flags=QUICK)
    simulator.train(x, labels, rates(6))
    return simulator.save()


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGES)
def test_libraries_and_objects_are_built_again_to_the_same_bits(
    plan: TrainingPlan, own_cache: Path, kind: str
) -> None:
    expected = trained(plan)
    library = build_library(generate(plan, ""), portable=True, extra_flags=QUICK)
    damage([library], kind)
    assert trained(plan) == expected
    assert is_sound(library)

    objects = sorted((own_cache / "objects").glob("*.o"))
    chosen = random.Random(kind).sample(objects, 2)
    damage(chosen, kind)
    damage([library], kind)
    assert trained(plan) == expected
    assert all(map(is_sound, (library, *objects)))
    assert sorted((own_cache / "objects").glob("*.o")) == objects
    assert not list(own_cache.rglob("*.part"))


@pytest.mark.parametrize("kind", DAMAGES)
def test_the_emulators_counter_is_built_again(kind: str) -> None:
    library = shared_library(COUNTER)
    damage([library], kind)
    assert shared_library(COUNTER) == library
    assert is_sound(library)
    assert ctypes.CDLL(str(library)).mct_counter_new


@pytest.mark.parametrize("kind", DAMAGES)
def test_activations_are_computed_again(graph: Graph, kind: str, fresh_cache: Path) -> None:
    graph = trunk(graph)
    cuts, (x, _) = all_cuts(graph), samples(graph, 40, CLASSES)
    folder = analysis_folder() / "activations"
    first = Activations(graph, cuts, x, folder)
    expected = np.array(first.at(cuts[1]))
    paths = sorted(folder.glob("*.npy"))
    assert paths
    damage(paths, kind)
    again = Activations(graph, cuts, x, folder)
    np.testing.assert_array_equal(again.at(cuts[1]), expected)
    assert all(map(is_sound, paths))
    assert expected.std() > 0


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_result_that_is_damaged_is_worked_out_again(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    for number in range(20):
        store.put(str(number), {"accuracy": number / 7})
    damage(sorted(tmp_path.rglob("*.json")), kind)
    assert [store.get(str(number)) for number in range(20)] == [None] * 20
    store.put("3", {"accuracy": 3 / 7})
    assert store.get("3") == {"accuracy": 3 / 7}


def test_a_cache_that_cannot_be_written_is_a_sentence(
    plan: TrainingPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").touch()
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "home" / "cache"))
    with pytest.raises(BuildError, match=r"home/cache.* cannot be written: .*MCUTRAIN_CACHE"):
        CompiledSimulator(plan)
