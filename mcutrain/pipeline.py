"""The stages in order: model file → graph → training graph → memory plan → C project or simulation.

This module decides nothing; every stage can be called on its own.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mcutrain_host.build import build, find_toolchain
from mcutrain_host.errors import BuildError
from mcutrain_host.memory import measure

from mcutrain import codegen, frontends, instructions
from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.codegen import Project
from mcutrain.codegen.firmware import compile_facts
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import verify
from mcutrain.memplan import TrainingPlan, check_board, plan_training
from mcutrain.memplan.cost import cost_of, flash_bytes
from mcutrain.memplan.flash import code_sizes
from mcutrain.memplan.training_plan import STATE_HEADER_BYTES
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.quant import replace_head
from mcutrain.simulate import CompiledSimulator, Compiler, PlannedReference
from mcutrain.sparse import ChannelOrder, UpdateScheme, arrange, find_head, parse_scheme
from mcutrain.sparse.cost import CostFunction, Device, Measured, SchemeCost
from mcutrain.target import Target

DEFAULTS = TrainOptions()
ALIGN_BYTES = {"int8": 4, "int16": 8}  # of buffers: sums of int16 gradients are int64


@dataclass(frozen=True)
class TrainingStep:
    """A model, what of it is trained, and the planned step that does it.

    graph: as the model has it. order: how the step's graph orders the channels instead.
    """

    graph: Graph
    scheme: UpdateScheme
    plan: TrainingPlan
    order: ChannelOrder

    @cached_property
    def project(self) -> Project:
        """The C project."""
        return codegen.generate(self.plan, self.scheme.name)

    def firmware(self, target: Target) -> Project:
        """The C project of a board's firmware. Raises PlanError if it does not fit."""
        check_board(self.plan, target)
        return codegen.generate(self.plan, self.scheme.name, target)

    def simulator(
        self, seed: int = 1, compiler: Compiler | None = None, portable: bool = False
    ) -> CompiledSimulator:
        """The C project, compiled for this machine and loaded."""
        return CompiledSimulator(
            self.plan, self.scheme.name, seed, compiler, portable, project=self.project
        )

    def reference(self, seed: int = 1) -> PlannedReference:
        """The same step as numpy computes it, and the same saved state."""
        return PlannedReference(self.plan, seed)


def load(path: str | Path) -> Graph:
    """An int8 `.tflite` or QDQ `.onnx` file as a verified graph."""
    return verify(frontends.load(Path(path)))


def prepare(
    model: Graph | str | Path,
    scheme: UpdateScheme | str = "head",
    *,
    classes: int | None = None,
    head_seed: int = 0,
    gradient_dtype: str = "int8",
    accumulate: int = 1,
    qas: bool = True,
) -> TrainingStep:
    """The planned training step of a model under an update scheme.

    scheme: an UpdateScheme or what parse_scheme reads. classes: replaces the classifier by a new
    one with so many outputs, initialised from head_seed; None keeps the model's own.
    gradient_dtype: int8 or int16. accumulate: samples per update. qas: quantization-aware scaling.
    """
    graph = model if isinstance(model, Graph) else load(model)
    chosen = parse_scheme(scheme) if isinstance(scheme, str) else scheme
    if not qas:
        chosen = replace(chosen, qas=False)
    if classes is not None:
        graph = replace_head(graph, find_head(graph).node, classes, head_seed)
    order, training = _differentiated(graph, chosen, TrainOptions(gradient_dtype, accumulate))
    plan = plan_training(training, ALIGN_BYTES[gradient_dtype])
    return TrainingStep(graph, chosen, plan, order)


def _differentiated(
    graph: Graph, scheme: UpdateScheme, options: TrainOptions
) -> tuple[ChannelOrder, TrainGraph]:
    """The graph with the trained channels in front, and its training step."""
    order, updates = arrange(scheme, graph)
    head = find_head(graph).name
    return order, differentiate(order.graph, head, updates, SoftmaxCrossEntropy, options)


def scheme_cost(
    graph: Graph, isa: str | None = None, options: TrainOptions = DEFAULTS
) -> CostFunction:
    """What an update scheme of a model takes, without the search for offsets.

    graph: with the head that is trained. isa: a board's instruction set; without it flash and
    instructions are not counted.
    """
    align_bytes = ALIGN_BYTES[options.gradient_dtype]
    code = None if isa is None else code_sizes(isa)

    def cost(scheme: UpdateScheme) -> SchemeCost:
        _, training = _differentiated(graph, scheme, options)
        counts = None if isa is None else instructions.estimate(training, isa)
        return cost_of(training, align_bytes, code, counts)

    return cost


def device(
    graph: Graph,
    target: Target | None = None,
    options: TrainOptions = DEFAULTS,
    builds: bool = False,
) -> Device:
    """How update schemes of a model are costed for selection.

    graph: with the head that is trained. target: without one, SRAM is arena and state only, and
    there is neither flash nor instructions. builds: a selected scheme's firmware is compiled, too.
    """
    isa = None if target is None else target.isa
    code = None if isa is None else code_sizes(isa)
    fixed = 0 if target is None else target.stack_bytes + target.firmware_bytes()

    def planned(scheme: UpdateScheme) -> Measured:
        return _measured(_planned(graph, scheme, options), target)

    def compiled(scheme: UpdateScheme) -> Measured | None:
        assert target is not None
        return _built(_planned(graph, scheme, options), target)

    return Device(
        cost=scheme_cost(graph, isa, options),
        measure=planned,
        build=compiled if builds and target is not None and not target.is_hosted else None,
        fixed_sram_bytes=STATE_HEADER_BYTES + fixed,
        fixed_flash_bytes=0 if code is None else code.fixed,
    )


def has_compiler(target: Target) -> bool:
    """Whether firmware for the board can be compiled here."""
    try:
        find_toolchain(compile_facts(target, ()))
    except BuildError:
        return False
    return True


def _planned(graph: Graph, scheme: UpdateScheme, options: TrainOptions) -> TrainingStep:
    return prepare(
        graph, scheme, gradient_dtype=options.gradient_dtype, accumulate=options.accumulate
    )


def _measured(step: TrainingStep, target: Target | None) -> Measured:
    """What the plan says of memory, and estimates of the rest."""
    plan = step.plan
    code = None if target is None else code_sizes(target.isa)
    counts = {} if target is None else instructions.estimate(plan.training, target.isa)
    sram = target.sram_bytes if target is not None else lambda arena, state: arena + state
    return Measured(
        sram_bytes=sram(plan.arena_bytes, plan.state_bytes),
        arena_bytes=plan.arena_bytes,
        state_bytes=plan.state_bytes,
        flash_bytes=0 if code is None else flash_bytes(plan.training, code),
        instructions=sum(counts.values()),
        peak_step=plan.arena.peak_step,
        peak_node=plan.nodes[plan.arena.peak_step].name,
    )


def _built(step: TrainingStep, target: Target) -> Measured | None:
    """The same as the linked ELF has it; None if the linker has too little memory."""
    estimated = _measured(step, target)
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        project = Path(folder) / "project"
        step.firmware(target).write(project)
        try:
            build(project)
        except BuildError as error:
            if "bytes too many" in str(error):
                return None
            raise
        memory = measure(project)
    assert memory is not None
    return replace(
        estimated,
        sram_bytes=memory.linked_bytes,
        flash_bytes=memory.flash_bytes,
        was_built=True,
    )
