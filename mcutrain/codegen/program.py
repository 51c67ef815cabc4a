"""Lowering: a planned training step as C expressions, ready to be printed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff import Classifier
from mcutrain.autodiff.state_kinds import BIASES
from mcutrain.codegen.c_text import CTYPES, comment, unused
from mcutrain.codegen.declarations import ConstantTable, Declarations, Params
from mcutrain.features import features_of
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import Operand
from mcutrain.ir.text import dump, type_text
from mcutrain.memplan import Latent, Placed, PlannedLadder, PlannedSteps, TrainingPlan
from mcutrain.memplan.calls import node_call
from mcutrain.memplan.lifetimes import FED, PROGRESS_PREFIX
from mcutrain.memplan.stream import Segment

BETWEEN_NODES = "mct_between_nodes();"
"""A board's own function, see firmware/app/mct_board.h."""
HOOK = "{}_BETWEEN_NODES();"
"""A macro of whoever takes a library into a program; {}: the model's prefix. See mct_model.h."""


@dataclass(frozen=True)
class Call:
    """One statement and what it computes. condition: in C, on which it does; empty: always.

    node: whose time it takes; of a segment the first. segment: its C structure, of nodes that
    compute row by row.
    """

    comment: str
    code: str
    node: str
    condition: str = ""
    segment: str = ""


@dataclass(frozen=True)
class StageFunction:
    """A stage of a segment: a function that computes a strip, and its row of the table."""

    name: str
    comment: str
    code: tuple[str, ...]
    row: str


@dataclass(frozen=True)
class SegmentCode:
    """Nodes that compute row by row, one in each stage. tensors: rows of a table, with comments."""

    name: str
    comment: str
    nodes: tuple[str, ...]
    stages: tuple[StageFunction, ...]
    tensors: tuple[tuple[str, str], ...]
    links: tuple[int, ...]
    sources: int
    progress: int
    is_fed: bool


@dataclass(frozen=True)
class FrontCode:
    """A front of a proxy cascade, or its policy: a function.

    takes: C that moves the sample to where the front reads it. gives: C that moves what it made to
    where others read it. Empty where it lies there already.
    """

    name: str
    comment: str
    takes: str
    calls: tuple[Call, ...]
    gives: str


@dataclass(frozen=True)
class StepsCode:
    """Steps of a streaming network. x, y: C pointers to the new rows and the output.

    x_bytes: of the new rows. fills: offset, bytes and value of each ring at first.
    """

    x: str
    x_bytes: int
    y: str
    calls: tuple[Call, ...]
    fills: tuple[tuple[int, int, int], ...]
    ring_bytes: int


@dataclass(frozen=True)
class LadderCode:
    """The fronts of a program, and what chooses of them.

    whole: moves the sample to where the step's own front reads it. scores: the C pointer to what
    the policy gives.
    """

    policy: FrontCode
    proxies: tuple[FrontCode, ...]
    whole: str
    scores: str


class Program:
    """The statements of inference, of a training step and of an update, and all they refer to.

    latent: what both may begin with, then `front` has the statements before it, and `infer` and
    `forward` only those behind it. timed: nodes by whose number steps keep the time that they take.
    classifier: whose features an inference adds up when it is asked to; None for other programs.
    between: a statement that stands behind each node and each strip of rows: BETWEEN_NODES of a
    board, HOOK of a library; empty for none.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        prefix: str = "mct",
        latent: Latent | None = None,
        timed: Sequence[str] = (),
        classifier: Classifier | None = None,
        between: str = "",
    ) -> None:
        self.prefix = prefix
        self.between = between
        self.classifier = classifier
        self.plan = plan
        self.latent = latent
        self.training = plan.training
        self._timed = {name: i for i, name in enumerate(timed)}
        self.constants: dict[str, tuple[str, Tensor]] = {}
        self.kernels: dict[str, set[str]] = {}
        self._declarations = Declarations()
        self._names: set[str] = set()
        self._contents: dict[tuple[str, bytes], str] = {}

        nodes = self.training.graph.nodes
        loss = self.training.loss_step
        self._features = features_of(self.training)
        self.segments: tuple[SegmentCode, ...] = ()
        self._segments: dict[str, SegmentCode] = {}
        self._add_segments(self.training.graph, plan)
        begin = 0 if latent is None else latent.position
        self.front = self._steps_calls(nodes[:begin])
        self.infer = self._calls(self.training.forward, self.training.forward.nodes[begin:])
        if classifier is not None:
            self.infer = self._adding_up(self.infer, classifier)
        self.forward = self._steps_calls(nodes[begin:loss])
        self.loss = self._steps_calls(nodes[loss : loss + 1])
        self.backward = self._steps_calls(nodes[loss + 1 :])
        self.apply = self._steps_calls(self.training.apply)
        self.fronts = None if plan.ladder is None else self._ladder(plan.ladder)
        self.steps = None if plan.steps is None else self._steps(plan.steps)
        self.initial = self._initial_state()
        self.backing = self._initial_backing()

    @property
    def tables(self) -> tuple[ConstantTable, ...]:
        """All constant tables, in order of first use."""
        return self._declarations.tables

    @property
    def params(self) -> tuple[Params, ...]:
        """All parameter structs, in order of first use."""
        return self._declarations.params

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes of the step, and of its updates, in order of execution."""
        return self.plan.nodes

    @property
    def is_library(self) -> bool:
        """Whether somebody takes it into a program of his own."""
        return self.between == HOOK.format(self.prefix.upper())

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena."""
        return self.plan.arena_bytes

    @property
    def exponents(self) -> tuple[int, ...]:
        """Where the gradients' exponents stand in the state."""
        return tuple(s.offset for s in self.plan.state.tensors if s.dtype == "exponent")

    @property
    def biases(self) -> int:
        """How many numbers of trained biases the state begins with."""
        wide = [s for s in self.plan.state.tensors if s.kind == BIASES.name and s.dtype == "int32"]
        assert tuple(wide) == self.plan.state.tensors[: len(wide)], "they are read as one array"
        return sum(section.count for section in wide)

    @cached_property
    def model_hash(self) -> str:
        """16 hexadecimal digits of what fixes the meaning of a saved state."""
        digest = hashlib.sha256(dump(self.training.graph).encode())
        for node in (*self.training.graph.nodes, *self.training.apply):
            digest.update(repr(node).encode())  # the dump shortens tables
        digest.update(repr(sorted(self.plan.state_offsets.items())).encode())
        for feature in reversed(features_of(self.training)):
            digest.update(feature.identity(self.training).encode())
        for name, value in self.training.backing.items():
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
        for name, tensor in sorted(self.training.graph.tensors.items()):
            if tensor.data is not None:
                digest.update(name.encode() + np.ascontiguousarray(tensor.data).tobytes())
        return digest.hexdigest()[:16]

    def expression(self, graph: Graph, name: str, where: Placed | None = None) -> str:
        """The C pointer to a tensor. where: of a front; None: of the step, or inference."""
        special = {
            self.training.step: "step",
            self.training.loss: "&result->loss_q16",
            self.training.prediction: "&result->prediction",
        }
        if not self.training.positions:
            special[self.training.label] = "&label"
        if name in special:
            return special[name]
        tensor = graph.tensors[name]
        ctype = CTYPES[tensor.type.dtype]
        state = self._state_of(name)
        if state is not None:
            return f"STATE({ctype}, {self.plan.state_offsets[state]})"
        if name in self.plan.backing_offsets:
            return f"backing + {self.backing_place(name)}"
        if isinstance(where, PlannedSteps) and name in where.offsets:
            return f"KEPT_ROWS({ctype}, {where.offsets[name]})"
        if tensor.is_constant:
            return self._constant(tensor, where is not None)
        return f"ARENA({ctype}, {(where or self.plan).offset_of(name)})"

    def words(self, kind: str, ctype: str) -> str:
        """The C pointer to what a feature keeps, as this type. kind: of mcutrain_host.state."""
        return f"STATE({ctype}, {self.words_offset(kind)})"

    def words_offset(self, kind: str) -> int:
        """Return where they begin in the state."""
        offset = self.plan.state.offset_of(kind)
        assert offset is not None, f"the state has no {kind}"
        return offset

    def front_macs(self) -> tuple[int, ...]:
        """Multiply-accumulates of the policy and of each level, the whole front first."""
        ladder = self.plan.ladder
        assert ladder is not None, "there are no fronts"
        policy, *proxies = (front.graph.macs() for front in ladder.fronts)
        return (policy, self.training.forward.macs(0, ladder.position), *proxies)

    def state_offset(self, name: str) -> int:
        """Return where a tensor begins in the state."""
        return self.plan.state_offsets[name]

    def backing_place(self, name: str) -> int:
        """Return where a weight begins in the backing store."""
        return self.plan.backing_offsets[name] - self.plan.state_bytes

    def _state_of(self, name: str) -> str | None:
        if name in self.plan.state_offsets:
            return name
        return next((s for s, new in self.training.updated.items() if new == name), None)

    def _constant(self, tensor: Tensor, is_shared: bool) -> str:
        """is_shared: one of the same numbers does as well."""
        content = tensor.content()
        if is_shared and content in self._contents:
            return self._contents[content]
        if tensor.name not in self.constants:
            name = unused(f"{self.prefix}_constant_{tensor.name}", self._names)
            self.constants[tensor.name] = (name, tensor)
            self._contents.setdefault(content, name)
        return self.constants[tensor.name][0]

    @property
    def is_fed(self) -> bool:
        """Whether the input is never in memory as a whole."""
        return any(segment.is_fed for segment in self.segments)

    def timed(self, node: str, statement: str) -> str:
        """The statement, with its time kept as the node's if nodes are timed."""
        if node not in self._timed:
            return statement
        return f"TIMED({self._timed[node]}, {statement.removesuffix(';')});"

    def _adding_up(self, calls: tuple[Call, ...], classifier: Classifier) -> tuple[Call, ...]:
        """Add up the features where the classifier is about to read them."""
        place = [call.node for call in calls].index(classifier.node)
        x = self.expression(self.training.forward, classifier.x)
        code = f"if (imprint.adds) {{ mct_imprint_sums(&imprint_params, {x}, imprint.sums); }}"
        adding = Call(f"the features of {comment(classifier.node)}", code, classifier.node)
        return (*calls[:place], adding, *calls[place:])

    def _steps_calls(self, nodes: Iterable[Node]) -> tuple[Call, ...]:
        """Calls of training steps."""
        calls = self._calls(self.training.graph, nodes)
        return tuple(replace(call, code=self.timed(call.node, call.code)) for call in calls)

    def _ladder(self, ladder: PlannedLadder) -> LadderCode:
        """Fronts, which begin with the sample where the policy leaves it."""
        policy, training, whole = ladder.policy, self.training, self.plan
        latent = whole.offset_of(ladder.latent)
        sample, x = policy.offset_of(policy.x), whole.offset_of(training.x)
        codes = []
        for level, front in enumerate(ladder.fronts):
            self._add_segments(front.graph, front)
            size_bytes = [front.graph.tensors[name].type.size_bytes for name in (front.x, front.y)]
            begin, end = front.offset_of(front.x), front.offset_of(front.y)
            name = f"level_{level}" if level else "policy"
            what = f"The front of level {level}" if level else "What chooses the front"
            macs = f"{front.graph.macs():,} multiply-accumulates"
            takes = _move(sample if level else x, begin, size_bytes[0])
            calls = self._calls(front.graph, front.graph.nodes, front)
            gives = _move(end, latent, size_bytes[1]) if level else ""
            codes.append(FrontCode(name, f"{what}: {macs}", takes, calls, gives))
        return LadderCode(
            policy=codes[0],
            proxies=tuple(codes[1:]),
            whole=_move(sample, x, training.input_type.size_bytes),
            scores=self.expression(policy.graph, policy.y, policy),
        )

    def _steps(self, steps: PlannedSteps) -> StepsCode:
        """A step of a streaming network."""
        return StepsCode(
            self.expression(steps.graph, steps.x, steps),
            steps.graph.tensors[steps.x].type.size_bytes,
            self.expression(steps.graph, steps.y, steps),
            self._calls(steps.graph, steps.nodes, steps),
            steps.fills,
            steps.ring_bytes,
        )

    def _calls(
        self, graph: Graph, nodes: Iterable[Node], where: Placed | None = None
    ) -> tuple[Call, ...]:
        """A segment is one call, in the place of the first of its nodes; a fed one is none."""
        streamed = {name: s.name for s in (where or self.plan).segments for name in s.nodes}
        calls: dict[str, Call] = {}
        for node in nodes:
            first = streamed.get(node.name)
            if first is None and not node.op.is_view:
                calls[node.name] = self._call(graph, node, where)
            elif first is not None and not self._segments[first].is_fed:
                segment = self._segments[first]
                code = f"mct_segment_compute(&{segment.name}, arena.bytes);"
                calls[first] = Call(segment.comment, code, node.name, segment=segment.name)
        return self._with_hook(tuple(calls.values()))

    def _with_hook(self, calls: tuple[Call, ...]) -> tuple[Call, ...]:
        """Add what the program does between nodes behind each, on the same condition."""
        if self.between != BETWEEN_NODES:
            return tuple(replace(c, code=f"{c.code}\n{self.between}".strip()) for c in calls)
        own = Call("what the board does meanwhile", BETWEEN_NODES, "")
        return tuple(c for call in calls for c in (call, replace(own, condition=call.condition)))

    def _add_segments(self, graph: Graph, where: Placed) -> None:
        """Add the segments of a step, or of a front, behind those that there are."""
        for segment in where.segments:
            code = self._segment(segment, len(self.segments), graph, where)
            self._segments[segment.name] = code
            self.segments += (code,)

    def _segment(self, segment: Segment, number: int, graph: Graph, where: Placed) -> SegmentCode:
        name = segment_name(number)
        links: list[int] = []
        tensors = []
        for tensor, readers in zip(segment.tensors, segment.flow.readers, strict=True):
            numbers = (where.offset_of(tensor.name), tensor.row_bytes, tensor.rows, tensor.room)
            row = (*numbers, len(links), len(readers))
            tensors.append((", ".join(map(str, row)), comment(tensor.name)))
            links += readers
        stages = []
        for i, inputs in enumerate(segment.flow.inputs):
            function = stage_function(number, i)
            stages.append(self._stage(segment, i, function, len(links), graph, where))
            links += inputs
        first, last = segment.stages[0].node.name, segment.stages[-1].node.name
        text = comment(f"{first} to {last}, row by row")
        progress = where.arena.offsets[PROGRESS_PREFIX + segment.name]
        return SegmentCode(
            name,
            text,
            tuple(stage.node.name for stage in segment.stages),
            tuple(stages),
            tuple(tensors),
            tuple(links),
            segment.sources,
            progress,
            segment.is_fed,
        )

    def _stage(
        self,
        segment: Segment,
        place: int,
        name: str,
        first: int,
        graph: Graph,
        where: Placed,
    ) -> StageFunction:
        stage = segment.stages[place]
        node, rows = stage.node, stage.rows
        call = node_call(graph, node)
        self.kernels.setdefault(call.kernel, set()).update(call.sources)
        sets = [f"{rows.x} = strip->x_rows"] if rows.x else []
        sets += [f"{rows.y} = strip->y_rows"] if rows.y else []
        sets += [f"{rows.pad_top} = strip->pad_top"] if rows.pad_top else []
        if rows.counted:
            (all_rows,) = (p.value for p in call.params if p.name == rows.counted)
            assert isinstance(all_rows, int)
            each = all_rows // graph.tensors[node.outputs[0]].type.shape[1]
            sets.append(f"{rows.counted} = {each} * strip->y_rows")

        front = None if where is self.plan else where

        def operand(operand: Operand) -> str:
            if operand.kind == "output":
                return "strip->y"
            if operand.kind == "input" and operand.index in rows.inputs:
                return f"strip->x[{stage.reads.index(node.inputs[operand.index])}]"
            return self._operand(graph, node, front, operand)

        *copies, statement = self._declarations.rows(call, operand, node.name, sets)
        code = (*copies, self.timed(node.name, statement))
        code += (self.between,) if self.between else ()
        text = comment(f"{node.name}: {type_text(graph.tensors[node.outputs[0]].type)}")
        numbers = (rows.span, rows.stride, rows.pad, stage.strip, segment.sources + place, first)
        row = ", ".join(map(str, (name, *numbers, len(stage.reads))))
        return StageFunction(name, text, code, row)

    def _call(self, graph: Graph, node: Node, where: Placed | None = None) -> Call:
        call = node_call(graph, node)
        self.kernels.setdefault(call.kernel, set()).update(call.sources)
        code = self._declarations.call(call, partial(self._operand, graph, node, where), node.name)
        outputs = ", ".join(type_text(graph.tensors[n].type) for n in node.outputs[:1])
        text = comment(f"{node.name}: {outputs}")
        return Call(text, code, node.name, self._condition(node))

    def _condition(self, node: Node) -> str:
        """Return what has to be true for a node to run, in C; "" for one that always does."""
        asked = (feature.condition(self.training, node) for feature in self._features)
        found = [condition for condition in asked if condition]
        return found[0] if len(found) == 1 else " && ".join(f"({one})" for one in found)

    def _operand(self, graph: Graph, node: Node, where: Placed | None, operand: Operand) -> str:
        if operand.kind == "scratch":
            placed = where or self.plan
            offset = placed.scratch_of(node.name)
            if offset is None:
                call = node_call(graph, node)
                needed = call.overwriting_bytes if placed.overwrites(node) else 0
                assert max(call.scratch_bytes, needed) == 0, f"{node.name!r} has no scratch"
                return "NULL"  # needed only to overwrite an input
            return f"(void *)(arena.bytes + {offset})"
        names = node.inputs if operand.kind == "input" else node.outputs
        return self.expression(graph, names[operand.index], where)

    @property
    def feed(self) -> str:
        """The statement that computes with rows of the sample, if the input is fed."""
        call = "mct_segment_feed(&segment_1, arena.bytes, offset, bytes, count);"
        return self.timed(self.plan.segments[0].name, call)

    @property
    def fed(self) -> str:
        """The C pointer to how many bytes of a sample there are, if the input is fed."""
        return f"ARENA(uint32_t, {self.plan.arena.offsets[FED]})"

    def _initial_state(self) -> tuple[Mapping[str, object], ...]:
        entries = []
        for name, offset in self.plan.state_offsets.items():
            value = np.asarray(self.training.state[name])
            if not value.any():
                continue  # mct_reset clears everything first
            dtype = "int8" if value.dtype == np.int8 else str(value.dtype)
            tensor = self.training.graph.tensors[name]
            c_name = unused(f"{self.prefix}_initial_{name}", self._names)
            self.constants[f"initial {name}"] = (
                c_name,
                Tensor(name, tensor.type, value.astype(dtype)),
            )
            entries.append(
                {"offset": offset, "name": c_name, "bytes": value.nbytes, "tensor": comment(name)}
            )
        return tuple(entries)

    def first(self, name: str) -> str:
        """The C constant that a tensor of the state begins with; NULL of zeros."""
        found = self.constants.get(f"initial {name}")
        return "NULL" if found is None else found[0]

    def _initial_backing(self) -> str:
        """The constant with the backing store as it is at first; empty if there is none."""
        if not self.training.backing:
            return ""
        whole = np.zeros(self.plan.backing_bytes, np.int8)
        for name, value in self.training.backing.items():
            place = self.backing_place(name)
            whole[place : place + value.size] = value.ravel().view(np.int8)
        c_name = unused(f"{self.prefix}_initial_backing", self._names)
        tensor = Tensor("backing", TensorType(whole.shape), whole)
        self.constants["initial backing"] = (c_name, tensor)
        return c_name


def by_condition(calls: Iterable[Call]) -> tuple[tuple[str, tuple[Call, ...]], ...]:
    """Calls in order, those together that follow one another on the same condition."""
    groups = groupby(calls, key=lambda call: call.condition)
    return tuple((condition, tuple(group)) for condition, group in groups)


def _move(begin: int, to: int, size_bytes: int) -> str:
    """The statement that moves bytes of the arena; empty if they are there."""
    if begin == to:
        return ""
    return f"memmove(arena.bytes + {to}, arena.bytes + {begin}, {size_bytes});"


def segment_name(number: int) -> str:
    """Name of the C structure; number: from 0."""
    return f"segment_{number + 1}"


def stage_function(number: int, place: int) -> str:
    """The C function that computes rows of a segment's stage; both are counted from 0."""
    return f"{segment_name(number)}_stage_{place + 1}"


def sources_of(kernels: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The C files of the kernels, relative to the firmware folder."""
    return tuple(sorted(source for sources in kernels.values() for source in sources))


def headers_of(kernels: Mapping[str, set[str]]) -> Sequence[str]:
    """The kernels' headers."""
    return [f"mct_{kernel}.h" for kernel in sorted(kernels)]
