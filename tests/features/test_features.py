"""Each feature has its parts; where they go, and in which order, is written once and holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2
import mcutrain_templates
import pytest
from jinja2 import meta, nodes

from mcutrain import features, prepare
from mcutrain.codegen import Interface
from mcutrain.codegen.environment import environment
from mcutrain.codegen.program import Program
from mcutrain.codegen.slots import ONE, PARTS, PLAIN, SLOTS, filled, template_names
from mcutrain.features import FEATURES, PROGRAM_FEATURES
from mcutrain.memplan.state import WORDS
from tests.simulation import networks

NAMES = tuple(part.name for part in PARTS)
FOLDER = Path(features.__file__).parent
PARTS_FOLDER = Path(mcutrain_templates.__file__).parent / "parts"
LANGUAGES = ("c", "h")


def source(name: str) -> str:
    env = environment()
    assert env.loader is not None
    return env.loader.get_source(env, name)[0]


def blocks(part: str, language: str) -> frozenset[str]:
    try:
        return frozenset(environment().select_template(template_names(part, language)).blocks)
    except jinja2.TemplateNotFound:
        return frozenset()


def slots_in(node: nodes.Node) -> list[str]:
    """The slots of a template, or of a block of one, in order."""
    calls = (call for call in node.find_all(nodes.Call) if len(call.args) == 3)
    found = (call.args[0] for call in calls if isinstance(call.node, nodes.ExtensionAttribute))
    return [const.value for const in found if isinstance(const, nodes.Const)]


def reached(names: list[str], language: str) -> Iterator[str]:
    """Slots in the order in which the text of a program with all parts has them."""
    for name in names:
        yield name
        for part in (*NAMES, PLAIN):
            if name in blocks(part, language):
                path = environment().select_template(template_names(part, language)).name
                assert path is not None
                tree = environment().parse(source(path), path, path)
                (block,) = (b for b in tree.find_all(nodes.Block) if b.name == name)
                yield from reached(slots_in(block), language)


def frame(language: str) -> nodes.Template:
    name = f"mct_model.{language}.j2"
    return environment().parse(source(name), name, name)


def test_each_folder_is_a_feature_that_the_list_names() -> None:
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").is_file()}
    named = [feature.name for feature in (*FEATURES, *PROGRAM_FEATURES)]
    assert sorted(folders) == sorted(named)


def test_a_part_has_one_home() -> None:
    """With its Python if it has some, else with the templates; nothing there is no part's."""
    parts = {path.parent.name for path in PARTS_FOLDER.glob("*/*.j2")}
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").is_file()}
    assert not parts & folders
    assert parts | folders == {*NAMES, PLAIN}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_a_feature_has_its_parts(feature: features.StepFeature) -> None:
    folder = FOLDER / feature.name
    assert blocks(feature.name, "c")
    assert blocks(feature.name, "h")
    assert feature.words
    assert all(row.purpose for row in feature.words)
    assert {path.suffix for path in folder.glob("*.*")} == {".py", ".j2"}


@pytest.mark.parametrize("feature", PROGRAM_FEATURES, ids=lambda feature: feature.name)
def test_a_program_has_no_feature_that_nobody_asks_for(feature: features.ProgramFeature) -> None:
    """And its C is beside its Python."""
    program = Program(prepare(networks.residual_network(), "last:1").plan)
    assert not feature.is_on(program, Interface())
    assert blocks(feature.name, "c")
    assert blocks(feature.name, "h")
    assert (FOLDER / feature.name / "model.c.j2").is_file()


def test_a_plan_says_of_a_feature_that_it_is_there_or_none() -> None:
    graph = networks.residual_network()
    plain, gated = (prepare(graph, "last:1", gate=gate).plan for gate in (None, 0.5))
    assert features.plan_values(plain) == {"gate": None, "shelf": None}
    assert features.plan_values(gated) == {"gate": 0.5, "shelf": None}
    assert list(features.plan_lines(features.plan_values(plain))) == []
    (line,) = features.plan_lines(features.plan_values(gated))
    assert line.startswith("gate            learns from a sample if its loss > 0.5")


def test_words_of_the_state_lie_in_the_order_of_features() -> None:
    assert [row for feature in FEATURES for row in feature.words] == list(WORDS)
    assert len({row.kind for row in WORDS}) == len(WORDS)


def test_what_builds_on_a_part_stands_behind_it() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for place, part in enumerate(PARTS):
        assert set(part.over) <= set(NAMES[:place]), part.name


def test_a_ladder_comes_first_and_a_gate_decides_on_all_else() -> None:
    """Their words lie so in states of earlier versions, and their C runs so."""
    wanted = ["cascade", "resampling", "elastic", "gate"]
    assert [feature.name for feature in FEATURES if feature.name in wanted] == wanted
    assert FEATURES[-1].name == "gate"


@pytest.mark.parametrize("language", LANGUAGES)
def test_slots_are_reached_in_the_order_that_is_written_down(language: str) -> None:
    first = dict.fromkeys(reached(slots_in(frame(language)), language))
    assert tuple(first) == SLOTS[language]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_block_fills_a_slot(language: str) -> None:
    for part in (*NAMES, PLAIN):
        assert blocks(part, language) <= frozenset(SLOTS[language]), part
    assert ONE[language] <= frozenset(SLOTS[language])
    assert blocks(PLAIN, language) <= ONE[language]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_part_takes_the_place_only_of_those_that_it_names(language: str) -> None:
    """So that no two parts that know nothing of each other fill a place for one."""
    by_part = {part: blocks(part, language) for part in (*NAMES, PLAIN)}
    for slot in ONE[language]:
        ahead: list[str] = []
        for part in PARTS:
            if slot in by_part[part.name]:
                assert set(ahead) <= set(part.over), (slot, part.name)
                ahead.append(part.name)
                others = {p: by_part[p] for p in (*ahead, PLAIN)}
                assert filled(slot, language, others) == [part.name]
        plain = [PLAIN] if slot in by_part[PLAIN] else []
        assert filled(slot, language, {PLAIN: by_part[PLAIN]}) == plain


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_frame_knows_no_part(language: str) -> None:
    """It asks for no value of one, and its few conditions are on what every program has."""
    values = {part.value for part in PARTS}
    assert not values & meta.find_undeclared_variables(frame(language))
    assert sum(1 for _ in frame(language).find_all((nodes.If, nodes.CondExpr))) <= 20
