"""A library runs the portable bodies, a chip those for its instructions, a simulation the host's.

Drawn networks, many in one program: its models are what `generate` writes, and the same objects are
linked with each kind of bodies, under sanitizers where a compiler has them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mcutrain.codegen import Interface, Project, generate
from mcutrain.codegen.bodies import HEADER
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan, find_latent, lay_out, plan_training, tail
from mcutrain.simulation import CompiledSimulator, PlannedReference
from mcutrain.simulation.build import SANITIZE
from mcutrain.sparse import UpdateScheme
from tests.compiled import linked
from tests.memplan.fronts import draw_face, draw_overwriting, draw_plan
from tests.memplan.ladders import with_ladder
from tests.memplan.test_stream import planned_upon_itself
from tests.ops.c_harness import (
    FIRMWARE,
    HARNESS,
    Toolchain,
    body_of,
    include_flags,
    shared_sources,
)
from tests.ops.cases import CASES
from tests.ops.drawing import SeededSource, Source, drawn
from tests.simulation.networks import rates, samples, training_graph
from tests.simulation.test_training_steps import QUICK

Array = npt.NDArray[Any]

SEEDS = (1, 5, 20, 29, 40, 71, 84, 92, 96, 109, 110, 113, 134, 142)
"""Of networks in which every operator that can is a stage, and many lie upon their input."""
SCHEMES = (UpdateScheme(), UpdateScheme("last", 1, {}, 1), UpdateScheme("bias", 1))
STEPS = 3
SEED = 7

MODEL = """
#include "{prefix}_model.h"

static void {prefix}_show(const int8_t *x, int32_t label, mct_learning_rate rate)
{{
    static uint8_t saved[{PREFIX}_SAVED_BYTES];
    mct_result result;
    show({prefix}_feed(0, x, {PREFIX}_INPUT_BYTES) == MCT_OK);
    fwrite({prefix}_infer(), 1, {PREFIX}_OUTPUT_BYTES, stdout);
    show({prefix}_feed(0, x, {PREFIX}_INPUT_BYTES) == MCT_OK);
    show({prefix}_train(label, rate, &result) == MCT_OK);
    show(result.loss_q16);
    show(result.prediction);
    {prefix}_state_save(saved);
    fwrite(saved, 1, sizeof saved, stdout);
}}
"""
MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void show(int32_t value)
{{
    fwrite(&value, sizeof value, 1, stdout);
}}
{models}
typedef struct {{
    void (*reset)(uint32_t seed);
    void (*show)(const int8_t *x, int32_t label, mct_learning_rate rate);
    size_t bytes;
}} model;

static const model models[] = {{
{table}
}};

/* program SAMPLES MODEL: of each step the rate, the label, the sample. */
int main(int argc, char **argv)
{{
    const model *m = &models[atoi(argv[argc - 1])];
    int8_t *x = malloc(m->bytes); /* so that a sanitizer sees what is read beside it */
    int32_t head[3];
    FILE *in = fopen(argv[1], "rb");
    m->reset({seed});
    while (fread(head, sizeof head, 1, in) == 1 && fread(x, m->bytes, 1, in) == 1) {{
        m->show(x, head[2], (mct_learning_rate){{head[0], head[1]}});
    }}
    free(x);
    return fclose(in);
}}
"""


@dataclass(frozen=True)
class Case:
    """A network, its plan, and what is learnt from."""

    graph: Graph = field(repr=False)
    plan: TrainingPlan = field(repr=False)

    @staticmethod
    def of(s: Source) -> Case:
        graph = draw_overwriting(s)
        return Case(graph, draw_plan(s, graph))

    @staticmethod
    def chosen(s: Source) -> Case:
        """What a planner chooses for a network of faces, its tail, or a ladder of fronts."""
        graph, stream = draw_face(s), s.choice(("auto", "max"))
        training = training_graph(graph, s.choice(SCHEMES))
        kind = s.choice(("whole", "whole", "tail", "ladder"))
        if kind == "ladder":
            return Case(graph, with_ladder(training, stream=stream))
        if kind == "tail":
            whole = lay_out(training, 8, "off")
            training = tail(whole.training, find_latent(whole))
        return Case(training.forward, plan_training(training, 8, stream=stream))

    def samples(self) -> tuple[Array, Array]:
        return samples(self.graph, STEPS, self.plan.training.classes)

    def encoded(self) -> bytes:
        x, labels = self.samples()
        steps = zip(x, labels, rates(STEPS), strict=True)
        return b"".join(
            np.array([r.mult_q31, r.shift, y], np.int32).tobytes() + v.tobytes()
            for v, y, r in steps
        )

    def expected(self, simulator: CompiledSimulator | PlannedReference) -> bytes:
        """What the program prints if it computes the simulator's bits."""
        x, labels = self.samples()
        good, printed = np.int32(1).tobytes(), b""
        for i, rate in enumerate(rates(STEPS)):
            here = slice(i, i + 1)
            scores = np.asarray(simulator.infer(x[here])).astype(np.int8).tobytes()
            losses, found = simulator.train(x[here], labels[here], [rate])
            numbers = np.array([losses[0], found[0]], np.int32).tobytes()
            printed += good + scores + good + good + numbers + simulator.save()
        return printed


class Programs:
    """Makes programs of models: the bodies of each kind are compiled once."""

    def __init__(self, command: tuple[str, ...], flags: Sequence[str], folder: Path) -> None:
        self.command, self.flags, self.folder = command, tuple(flags), folder
        self.made = 0

    @cache  # noqa: B019
    def bodies(self, isa: str) -> list[str]:
        """Objects of all kernels and of the runtime."""
        folder = self.folder / isa
        folder.mkdir()
        tools = Toolchain(self.command, self.flags, folder)
        kernels = sorted(FIRMWARE.glob("kernels/*/*.c"))
        faster = [body_of(path, isa) for path in kernels]
        shared = shared_sources(isa)
        tools.compile_objects([*faster, *shared, *FIRMWARE.glob("runtime/*.c"), HARNESS])
        return sorted(str(p) for p in folder.glob("*.o") if p.stem != HARNESS.stem)

    def models(self, cases: Sequence[Case], are_drawn: bool = False) -> Path:
        """All models and a program's main function, as one object file that lacks the bodies."""
        self.made += 1
        folder = self.folder / f"models{self.made}"
        folder.mkdir()
        prefixes = [f"m{i}" for i in range(len(cases))]
        sources: list[Path] = [folder / "main.c"]
        for prefix, case in zip(prefixes, cases, strict=True):
            interface = Interface(prefix, isa="portable")
            project = generate(case.plan, "drawn", interface=interface)
            sources += written(project, prefix, folder)
        names = [{"prefix": p, "PREFIX": p.upper()} for p in prefixes]
        row = "    {{{prefix}_reset, {prefix}_show, {PREFIX}_INPUT_BYTES}},"
        text = MAIN.format(
            models="".join(MODEL.format(**n) for n in names),
            table="\n".join(row.format(**n) for n in names),
            seed=SEED,
        )
        sources[0].write_text(text)
        command = self._command("-r", *sources, "-o", folder / "models.o")
        if not are_drawn:
            return linked(command, folder)
        self._run(command)
        return folder / "models.o"

    def linked(self, models: Path, isa: str) -> Path:
        program = models.with_name(isa)
        self._run(self._command(models, *self.bodies(isa), "-pthread", "-o", program))
        return program

    def _command(self, *arguments: object) -> list[str]:
        return [*self.command, "-std=c11", *self.flags, *include_flags(), *map(str, arguments)]

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]


def written(project: Project, prefix: str, folder: Path) -> list[Path]:
    """The model's own C files. All others of a library are the firmware's, as they are there."""
    own = []
    for name, text in project.files.items():
        path = Path(name)
        if path.parent.name != "src":
            continue
        if path.name == Path(HEADER).name:
            (folder / path.name).write_text(text)
            continue
        if path.name.startswith(f"{prefix}_"):
            (folder / path.name).write_text(text)
            own += [folder / path.name] if path.suffix == ".c" else []
            continue
        same = [p for p in FIRMWARE.rglob(path.name) if p.read_text() == text]
        assert any(p.parent.name not in ("dsp", "host") for p in same), name
    return own


def assert_prints(program: Path, number: int, case: Case, expected: bytes) -> None:
    file = program.with_name(f"samples{number}")
    file.write_bytes(case.encoded())
    done = subprocess.run([program, file, str(number)], capture_output=True, timeout=120)
    what = f"model {number} of {program}"
    assert done.returncode == 0, f"{what}: {done.stderr.decode()[:4000]}"
    assert done.stdout == expected, what


@pytest.fixture(scope="module")
def programs(
    c_compilers: list[tuple[str, ...]],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Programs:
    """With sanitizers where a compiler has them."""
    command = next(iter(sanitizing.values()), c_compilers[0])
    flags = ["-O0", "-DEXACT_BUFFERS", *(SANITIZE if sanitizing else ())]
    return Programs(command, flags, tmp_path_factory.mktemp("bodies"))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [Case.of(SeededSource(seed)) for seed in SEEDS]


@pytest.fixture(scope="module")
def models(programs: Programs, cases: list[Case]) -> Path:
    return programs.models(cases)


def stages(cases: Sequence[Case], holds: Callable[[Any], bool] = lambda tensor: True) -> set[str]:
    """The kinds of operators whose output is a tensor of which something holds."""
    return {
        type(stage.node.op).__name__
        for case in cases
        for s in case.plan.segments
        for stage, tensor in zip(s.stages, s.tensors[s.sources :], strict=True)
        if holds(tensor)
    }


def able() -> set[str]:
    """The kinds of operators that can be a stage."""
    found = set()
    for case in CASES:
        for sample in map(case.draw, map(SeededSource, range(20))):
            op, results = sample.op, sample.op.infer(*sample.types)
            rows = None if op.is_view or len(results) > 1 else op.rows(sample.types, results)
            found |= set() if rows is None else {type(op).__name__}
    return found


@pytest.mark.slow
def test_the_networks_have_every_operator_that_can_as_a_stage(cases: list[Case]) -> None:
    """Also such whose rows make room for later ones, and such that lie upon their input."""
    assert able() <= stages(cases)
    assert len(stages(cases, lambda tensor: tensor.is_ring)) >= 12
    upon = stages(cases, lambda tensor: tensor.over is not None)
    assert {"Add", "AddChannels", "DepthwiseConv2D", "LayerNorm", "LeakyRelu", "Lookup"} <= upon
    assert {"Mul", "Rescale"} <= upon


def test_no_call_that_overwrites_its_input_is_written_with_null_for_scratch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a plan says."""
    assert "strip->y, NULL, NULL);" not in model_of(planned_upon_itself())
    monkeypatch.setattr("mcutrain.memplan.stream.overwriting_bytes", lambda *_: 0)
    with pytest.raises(AssertionError, match="'node1' has no scratch"):
        generate(planned_upon_itself(), "head")


def model_of(plan: TrainingPlan) -> str:
    return generate(plan, "head").files["src/mct_model.c"]


@pytest.mark.draws(2)
@pytest.mark.slow
@pytest.mark.parametrize("isa", ["portable", "armv6m", "dsp"])
def test_each_kind_of_bodies_computes_the_bits_of_the_reference(
    isa: str, programs: Programs, cases: list[Case], models: Path
) -> None:
    program = programs.linked(models, isa)
    for number, case in enumerate(cases):
        reference = PlannedReference(case.plan, seed=SEED)
        assert_prints(program, number, case, case.expected(reference))


@pytest.mark.slow
@settings(
    max_examples=2,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller one costs a compilation
)
@given(drawn_cases=st.lists(drawn(Case.of) | drawn(Case.chosen), min_size=4, max_size=7))
def test_a_library_computes_the_bits_of_its_simulation(
    drawn_cases: list[Case], programs: Programs
) -> None:
    program = programs.linked(programs.models(drawn_cases, are_drawn=True), "portable")
    for number, case in enumerate(drawn_cases):
        simulator = CompiledSimulator(case.plan, seed=SEED, extra_flags=QUICK)
        assert_prints(program, number, case, case.expected(simulator))
