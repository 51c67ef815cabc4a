"""Elastic selection: as good as trying everything, within the budget, the same in C."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import ArgumentError
from mcutrain.simulation.build import SANITIZE, WARNINGS
from mcutrain.sparse.elastic import (
    MOST_REACHES,
    SPARE_UNITS,
    UNITS,
    ElasticProblem,
    Reach,
    budget,
    choose,
)
from mcutrain.target import FIRMWARE
from tests.compiled import that_differ

EXACT, ROUNDED, LARGE = 1000, 300, 80
HARNESS = Path(__file__).with_name("elastic_harness.c")
RUNTIME = FIRMWARE / "runtime"
OK, BUDGET = 0, 7
"""mct_status."""
STEPS = UNITS - SPARE_UNITS
SHAPES = ("chain", "residual", "branches")
Sets = tuple[frozenset[int], ...]


@dataclass(frozen=True)
class Case:
    """A drawn network: what each tensor needs of the backward pass, and times of all."""

    needs: Sets
    node_times: tuple[int, ...]
    update_times: tuple[int, ...]
    always: tuple[int, ...]
    importance: tuple[int, ...]
    left: int

    @property
    def problem(self) -> ElasticProblem:
        return ElasticProblem.of(self.needs, self.node_times, self.update_times, self.always)

    @property
    def budget(self) -> int:
        return self.left + self.time(self.always)

    def time(self, chosen: tuple[int, ...]) -> int:
        nodes = frozenset[int]().union(*(self.needs[k] for k in chosen))
        return sum(self.node_times[i] for i in nodes) + sum(self.update_times[k] for k in chosen)

    def value(self, chosen: tuple[int, ...]) -> int:
        return sum(self.importance[k] for k in chosen)

    def best(self, budget: int) -> int:
        """The most importance of all sets of tensors that fit, each tried."""
        count = len(self.update_times)
        number = np.arange(2**count)
        within = [(number >> k & 1).astype(np.int64) for k in range(count)]
        needed = [np.zeros(2**count, bool) for _ in self.node_times]
        for k, need in enumerate(self.needs):
            for node in need:
                needed[node] |= within[k] == 1
        time = sum((w * t for w, t in zip(within, self.update_times, strict=True)), 0 * number)
        time += sum((w * t for w, t in zip(needed, self.node_times, strict=True)), 0 * number)
        value = sum((w * i for w, i in zip(within, self.importance, strict=True)), 0 * number)
        allowed = time <= budget
        for k in self.always:
            allowed &= within[k] == 1
        return int(value[allowed].max())


def needs_of(draw: random.Random, shape: str) -> Sets:
    """Of a weight, often with a bias, in each of some layers: the layers behind it."""
    behind: list[frozenset[int]] = [frozenset()]  # of layer 0, the head
    reader: frozenset[int] = frozenset({0})
    while len(behind) < 6:
        kind = "chain" if draw.random() < 0.3 else shape
        lengths = {"chain": [1], "residual": [2], "branches": [draw.randint(1, 2) for _ in "ab"]}
        block: list[frozenset[int]] = []
        for length in lengths[kind]:
            after = reader
            for _ in range(length):
                block.append(after)
                after = after | {len(behind) + len(block) - 1}
        behind += block
        reader = reader.union(*block, range(len(behind) - len(block), len(behind)))
    tensors = [need for need in behind for _ in range(1 + (draw.random() < 0.4))]
    return tuple(tensors[:10])


def cases(count: int, time: Callable[[random.Random, int], int]) -> Iterator[Case]:
    """time: draws one, given the unit."""
    draw = random.Random(0)
    for number in range(count):
        needs = needs_of(draw, SHAPES[number % len(SHAPES)])
        unit = draw.choice((1, 2, 3, draw.randint(1, 10**6)))
        left = draw.randint(STEPS * (unit - 1) + 1, STEPS * unit)
        yield Case(
            needs,
            tuple(time(draw, unit) // 2 // unit * unit for _ in range(1 + max(map(max_of, needs)))),
            tuple(time(draw, unit) for _ in needs),
            tuple(range(needs.count(frozenset()))),
            tuple(draw.choice((0, 1, 2, draw.randint(0, 10**6))) for _ in needs),
            left,
        )


def max_of(need: frozenset[int]) -> int:
    return max(need, default=0)


@cache
def exact_cases() -> tuple[Case, ...]:
    return tuple(cases(EXACT, lambda draw, unit: unit * draw.randint(0, 120)))


@cache
def rounded_cases() -> tuple[Case, ...]:
    return tuple(cases(ROUNDED, lambda draw, unit: draw.randint(0, 100 * unit)))


@cache
def halved_cases() -> tuple[Case, ...]:
    """Times between two units, and little importance: roundings and ties decide."""
    found = cases(ROUNDED, lambda draw, unit: unit * draw.randint(0, 160) // 2)
    return tuple(replace(c, importance=tuple(i % 3 for i in c.importance)) for c in found)


@cache
def large_cases() -> tuple[Case, ...]:
    """More tensors than all sets of which could be tried, of a chain with some branches.

    Some with small times and importances: then roundings and ties decide.
    """
    draw = random.Random(1)
    found = []
    for number in range(LARGE):
        count = draw.choice((2, 31, 33, 64, 84, 100))
        chain = [frozenset(range(k // 2)) for k in range(count)]
        branch = [frozenset({*range(k // 3), 500 + k % 3}) for k in range(count) if number % 4 == 0]
        needs = (*chain, *branch[::7])
        worth = draw.choice((3, 40, (2**31 - 1) // len(needs)))
        most = draw.choice((12, 20, 1000, 2**31 // len(needs)))
        case = Case(
            needs,
            tuple(int(draw.randint(0, most) * draw.random()) for _ in range(504)),
            tuple(int(draw.randint(0, most) * draw.random() ** 2) for _ in needs),
            (0, 1),
            tuple(draw.randint(0, worth) for _ in needs),
            0,
        )
        whole = case.problem.backward_time - case.problem.least_time
        found.append(replace(case, left=draw.randint(0, whole)))
    return tuple(found)


@dataclass(frozen=True)
class Program:
    """The harness with mct_elastic.c, of one compiler."""

    file: Path

    @staticmethod
    def make(command: Sequence[str], flags: Sequence[str], file: Path) -> Program:
        """Raises AssertionError for a warning."""
        sources = [str(HARNESS), str(RUNTIME / "mct_elastic.c")]
        arguments = ["-std=c11", *WARNINGS, *flags, f"-I{RUNTIME}", *sources, "-o", str(file)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return Program(file)

    def budgets(self, questions: Sequence[tuple[int, int, int]]) -> list[int]:
        """mct_elastic_budget of each."""
        words = [number for question in questions for number in question]
        return self.run("budget", [len(questions), *words])

    def chosen(self, cases: Sequence[Choice]) -> list[tuple[int, tuple[int, ...]]]:
        """mct_elastic_choose of each: the status, and the tensors."""
        words = [len(cases), *(word for case in cases for word in case.words)]
        answers = iter(self.run("choose", words))
        found = []
        for case in cases:
            status, scratch_bytes = next(answers), next(answers)
            assert scratch_bytes == case.problem.scratch_bytes
            bits = [next(answers) for _ in case.problem.always_words]
            every = range(32 * len(bits))
            found.append((status, tuple(k for k in every if bits[k // 32] >> k % 32 & 1)))
        assert not list(answers)
        return found

    def run(self, what: str, words: Sequence[int]) -> list[int]:
        sent = np.array(words, np.uint32).tobytes()
        done = subprocess.run([self.file, what], input=sent, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()[:4000]
        return [int(word) for word in np.frombuffer(done.stdout, np.uint32)]


@dataclass(frozen=True)
class Choice:
    """What choose is asked."""

    problem: ElasticProblem
    importance: tuple[int, ...]
    budget: int

    @property
    def words(self) -> list[int]:
        """As the harness reads them."""
        p = self.problem
        counts = [len(p.update_times), len(p.reaches), len(p.reach_tensors), self.budget]
        rows = [number for row in p.reach_rows for number in row]
        tables = [*p.update_times, *self.importance, *p.always_words, *rows, *p.reach_tensors]
        return counts + tables

    @property
    def answer(self) -> tuple[int, tuple[int, ...]]:
        """What C has to say."""
        if self.budget < self.problem.least_time:
            return BUDGET, self.problem.always
        return OK, choose(self.problem, self.importance, self.budget)


def exchanging_choices() -> list[Choice]:
    """Halves of units, and about as important as they take time: exchanges decide."""
    draw = random.Random(3)
    found = []
    for number in range(12):
        count, unit, fine = 150, (10, 50, 1000)[number % 3], (1, 100)[number % 2]
        times = [
            (2 * draw.randint(0, 4) + 1) * unit // 2 + draw.randint(-1, 1) for _ in range(count)
        ]
        worth = tuple(fine * (10 * t // unit) + draw.randint(0, 9 * fine) for t in times)
        problem = ElasticProblem.of([frozenset()] * count, [], times, [])
        found.append(Choice(problem, worth, unit * STEPS))
    return found


@pytest.fixture(scope="module")
def programs(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Program]:
    """Of every compiler, and with sanitizers."""
    folder = tmp_path_factory.mktemp("elastic")
    plain = [(command, ("-O2",)) for command in that_differ(c_compilers)]
    checked = [(command, ("-O1", *SANITIZE)) for command in sanitizing.values()]
    return [
        Program.make(command, flags, folder / f"{i}")
        for i, (command, flags) in enumerate((*plain, *checked))
    ]


def assert_c_chooses_alike(programs: Sequence[Program], choices: Sequence[Choice]) -> None:
    expected = [choice.answer for choice in choices]
    for program in programs:
        assert program.chosen(choices) == expected


# ------------------------------------------------------------------------------------------- tests


def test_choices_are_as_important_as_the_best_of_all_sets() -> None:
    for case in exact_cases():
        chosen = choose(case.problem, case.importance, case.budget)
        assert case.time(chosen) <= case.budget
        assert case.value(chosen) == case.best(case.budget)


def test_choices_stay_within_any_budget_and_lose_no_more_than_rounding_may() -> None:
    """Half a unit for each tensor and the reach, twice, and one of the limit: of 252."""
    for case in rounded_cases():
        chosen = choose(case.problem, case.importance, case.budget)
        unit = -(-case.left // STEPS)
        surely = case.budget - unit * (2 + len(case.needs) - len(case.always))
        assert case.time(chosen) <= case.budget
        if surely >= case.time(case.always):
            assert case.best(surely) <= case.value(chosen) <= case.best(case.budget)


def test_what_is_always_trained_is_chosen_and_what_has_no_importance_is_not() -> None:
    for case in (*exact_cases(), *rounded_cases()):
        chosen = choose(case.problem, case.importance, case.budget)
        assert chosen == tuple(sorted(chosen))
        assert set(case.always) <= set(chosen)
        assert all(case.importance[k] > 0 for k in set(chosen) - set(case.always))


def test_a_budget_for_the_least_trains_the_head_and_less_is_a_sentence() -> None:
    for case in exact_cases()[:50]:
        least = case.time(case.always)
        assert case.problem.least_time == least
        free = set(choose(case.problem, case.importance, least)) - set(case.always)
        assert case.time((*case.always, *free)) == least
        if least:
            with pytest.raises(ArgumentError, match=r"the budget is .*; give more time"):
                choose(case.problem, case.importance, least - 1)


def test_a_budget_for_all_trains_all_that_has_importance() -> None:
    for case in (*exact_cases(), *rounded_cases()):
        every = tuple(range(len(case.needs)))
        assert case.problem.backward_time == case.time(every)
        chosen = choose(case.problem, case.importance, 2**32 - 1)
        assert case.value(chosen) == case.value(every) - sum(
            case.importance[k] for k in set(case.always) - set(chosen)
        )


def test_reaches_of_a_chain_extend_each_other_and_of_branches_are_all_unions() -> None:
    chain = ElasticProblem.of(
        [frozenset(), frozenset({0}), frozenset({0, 1})], [5, 7], [1, 2, 3], [0]
    )
    assert chain.reaches == (Reach(0, (0,)), Reach(5, (0, 1)), Reach(12, (0, 1, 2)))
    assert chain.reach_rows == ((0, 0, 0), (5, 0, 1), (12, 0, 2))
    assert chain.reach_tensors == (1, 2)
    branches = ElasticProblem.of(
        [frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})], [5, 7], [1, 2, 3, 4], [0]
    )
    assert branches.reaches == (
        Reach(0, (0,)),
        Reach(5, (0, 1)),
        Reach(7, (0, 2)),
        Reach(12, (0, 1, 2, 3)),
    )
    assert branches.reach_rows == ((0, 0, 0), (5, 0, 1), (7, 1, 2), (12, 1, 4))
    assert branches.reach_tensors == (1, 2, 1, 3)
    assert branches.always_words == (1,)


@pytest.mark.slow
def test_many_tensors_of_less_than_half_a_unit_still_fit() -> None:
    count, left = 600, 100_000
    case = ElasticProblem.of([frozenset()] * (count + 1), [], [5] + [198] * count, [0])
    chosen = choose(case, [0] + [1] * 599 + [7], left + 5)
    assert len(chosen) == 1 + left // 198
    assert count in chosen


def test_what_rounding_leaves_is_filled_with_the_most_important_then_the_first() -> None:
    """Of 200 tensors of a unit and a half, counted as two, 128 are in 256 units and 168 in 252."""
    even = ElasticProblem.of([frozenset()] * 200, [], [3] * 200, [])
    assert choose(even, [1] * 200, 504) == tuple(range(168))
    assert choose(even, [1] * 150 + [2] * 50, 504) == (*range(118), *range(150, 200))


def test_of_equals_the_cheaper_reach_and_what_does_without_the_later_are_taken() -> None:
    needs = [frozenset[int](), frozenset({0}), frozenset({0}), frozenset({0, 1})]
    problem = ElasticProblem.of(needs, [5, 5], [1, 10, 10, 5], [0])
    assert choose(problem, [1, 3, 3, 3], 16) == (0, 1)
    assert choose(problem, [1, 0, 0, 3], 16) == (0, 3)


def test_too_many_combinations_of_branches_are_a_sentence() -> None:
    needs = [frozenset({i}) for i in range(11)]
    with pytest.raises(ArgumentError, match="more than 1024 ways to pass the gradient back"):
        ElasticProblem.of(needs, [1] * 11, [1] * 11, [])


@pytest.mark.parametrize(
    ("needs", "nodes", "updates", "sentence"),
    [
        ([frozenset({0})], [2**31], [1], "backward node 0 takes 2,147,483,648: a time must be"),
        ([frozenset({0})], [1], [-1], "tensor 0 takes -1: a time must be"),
        ([frozenset({0, 1})], [2**31 - 1] * 2, [2], "more than 32 bits hold; give all times"),
        ([frozenset({0})], [1], [1, 1], "1 needs for 2 tensors"),
    ],
)
def test_times_that_do_not_fit_are_sentences(
    needs: list[frozenset[int]], nodes: list[int], updates: list[int], sentence: str
) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        ElasticProblem.of(needs, nodes, updates, [])


@pytest.mark.parametrize(
    ("importance", "sentence"),
    [
        ([1], "1 importances for 2 tensors"),
        ([1, -1], "at least 0"),
        ([2**30, 2**30], r"less than 2\^31 together"),
    ],
)
def test_importance_that_does_not_fit_is_a_sentence(importance: list[int], sentence: str) -> None:
    problem = ElasticProblem.of([frozenset(), frozenset()], [], [1, 1], [0])
    with pytest.raises(ArgumentError, match=sentence):
        choose(problem, importance, 10)


def test_the_budget_is_the_share_of_the_step_without_the_forward_pass() -> None:
    assert budget(65536, 30, 70) == 70
    assert budget(32768, 30, 70) == 20
    assert budget(32768, 30, 71) == 20  # rounded down
    assert budget(19660, 30, 70) == 0  # 0.3 less a little: not even the forward pass
    assert budget(0, 2**32 - 1, 2**32 - 1) == 0
    assert budget(65536, 2**32 - 1, 2**32 - 1) == 2**32 - 1
    for wrong in ((-1, 1, 1), (65537, 1, 1), (1, -1, 1), (1, 1, 2**32)):
        with pytest.raises(ArgumentError, match=r"give 0 to 1|at least 0"):
            budget(*wrong)


@pytest.mark.slow
def test_c_chooses_the_same(programs: list[Program]) -> None:
    cases = (*exact_cases(), *rounded_cases(), *halved_cases(), *large_cases())
    choices = [Choice(c.problem, c.importance, c.budget) for c in cases]
    assert_c_chooses_alike(programs, [*choices, *exchanging_choices()])


@pytest.mark.slow
def test_c_chooses_the_same_at_the_limits_of_what_numbers_may_be(programs: list[Program]) -> None:
    top, many = 2**31 - 1, 700
    chain = [frozenset(range(k)) for k in range(4)]
    wide = ElasticProblem.of(chain, [top, 0, 0], [top, 0, 1, 0], [0])
    alone = ElasticProblem.of([frozenset()], [], [top], [])
    small = ElasticProblem.of([frozenset()] * (many + 1), [], [5] + [198] * many, [0])
    free = ElasticProblem.of([frozenset()] * 40, [], [0] * 40, [39])
    branches = ElasticProblem.of([frozenset({k}) for k in range(10)], [1] * 10, [1] * 10, [])
    even = ElasticProblem.of([frozenset()] * 200, [], [3] * 200, [])
    choices = [
        *(
            Choice(even, tuple(1 + i % m for i in range(200)), b)
            for m in (1, 3)
            for b in (301, 504)
        ),
        *(Choice(wide, i, b) for i in wide_importances(top) for b in budgets_about(wide)),
        *(Choice(alone, (i,), b) for i in (0, 1, top) for b in (0, top - 1, top, 2**32 - 1)),
        *(Choice(small, (0, *range(1, many), 0), b) for b in (4, 5, 60_000, 100_005, 2**32 - 1)),
        *(Choice(free, tuple(range(40)), b) for b in (0, 1, 2**32 - 1)),
        *(Choice(branches, tuple(range(1, 11)), b) for b in range(22)),
    ]
    assert len(branches.reaches) == MOST_REACHES
    assert_c_chooses_alike(programs, choices)


def wide_importances(top: int) -> list[tuple[int, ...]]:
    return [(0, 0, 0, 0), (top, 0, 0, 0), (0, top, 0, 0), (0, 1, 1, top - 2), (1, 0, top - 1, 0)]


def budgets_about(problem: ElasticProblem) -> list[int]:
    edges = (0, problem.least_time, problem.backward_time, 2**32 - 1)
    near = {edge + step for edge in edges for step in (-257, -1, 0, 1, 252, 253, 257)}
    return sorted(budget for budget in near if 0 <= budget < 2**32)


def test_c_computes_the_same_budget(programs: list[Program]) -> None:
    draw = random.Random(2)
    most = 2**32 - 1
    times = [0, 1, 2**31, most, *(draw.randint(0, most) for _ in range(8))]
    shares = [0, 1, 32768, 65535, 65536, *(draw.randint(0, 65536) for _ in range(8))]
    questions = [(s, f, b) for s in shares for f in times for b in times]
    expected = [budget(*question) for question in questions]
    assert any(expected)
    for program in programs:
        assert program.budgets(questions) == expected
        assert program.budgets([(65537, 7, 9), (most, most, most)]) == [9, most]
