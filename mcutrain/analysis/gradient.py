"""Contribution by gradient: importance from some samples, without training the candidates.

learnable, joint, dimension: from the samples' inner products, see dimension.py and
mcutrain.selection.kernels. fisher: sum of E[g²] over
the weights, g the derivative of one sample's loss; what TinyTrain (Kwon et al., ICML 2024) takes
from activations, here of the parameters themselves. first_order: the loss that one step of gradient
descent takes away, learning rate · sum of E[g]², as ElasticTrainer (Huang et al., MobiSys 2023)
estimates it. All are in real weights, w = scale · integer, where the device's rate, with
quantization-aware scaling, is the same for all; derivatives are those that the generated C
computes, in int16.

The head is trained alone before: gradients through an untrained classifier say what pleases random
numbers. It is trained on other samples than those whose gradients are taken: on its own samples it
has made the mean gradient of the last layers vanish. (Measured on the demo: rank correlation of
first_order with the gains by training 0.03 on the same samples, 0.62 on others.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.analysis.candidates import weight_candidate
from mcutrain.analysis.cut_step import cut_step
from mcutrain.analysis.dimension import (
    InnerProducts,
    Measure,
    effective_dimension,
    kernels_of,
    learnable,
    nested_groups,
    product_gains,
)
from mcutrain.analysis.front import Activations, Cut, all_cuts, worthwhile_cuts
from mcutrain.analysis.module_parts import ModuleParts, module_parts
from mcutrain.analysis.problem import HEAD_EPOCHS, Problem, blank_loss
from mcutrain.analysis.store import analysis_folder
from mcutrain.analysis.trial import HeadTrials, TrialSettings, evaluate
from mcutrain.arguments import EPOCHS
from mcutrain.codegen import generate
from mcutrain.errors import DataError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.ops.gradients import ACC_DROPPED_BITS
from mcutrain.ops.training import ApplyUpdate
from mcutrain.selection.contribution import JOINT, SHARES, Contributions, Gains
from mcutrain.simulation import CompiledSimulator, rounding_seed
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, find_head, resolve
from mcutrain.sparse.layers import layers_of, normalizations_of
from mcutrain.sparse.leaving_out import without_modules
from mcutrain.sparse.modules import whole_modules

Array = npt.NDArray[Any]

RATE_FACTORS = (1 / 4, 1 / 16, 1 / 64)
"""A rate that was searched may be too high for the head alone, whose gradients are the largest."""
LEARNT = 0.95
"""A head has learnt something whose loss is less than so much of that of equal scores."""
MEASURES = ("fisher", "first_order")
"""Besides those of inner products, which rank better and so come first."""
GROUP = 2
"""Samples per update: after the first of them the state holds its gradient alone, after the second
the sum of both."""
GRADIENT_DTYPE = "int16"
STILL = LearningRate.of(0.0)
SETTLING = 16
"""Groups before the first that counts, besides one per layer: exponents follow the last 16 updates,
and each layer's settles after those behind it."""


@dataclass(frozen=True)
class GradientSettings:
    """samples: whose gradients are taken, at most half of those for training. learning_rate: per
    sample. seed: of the order of samples and the rounding. head_epochs: of the head alone, on
    the other training samples. epochs: passes over the training samples that are to follow.
    is_found: the rate was searched for layers that learn together, and is lowered where the head
    alone learns nothing by it. module_rate: as a scheme has it. A rate F times as large for some
    parameters is as good as gradients of them √F times as large. head_rates: the head alone is
    trained at the best of these, by its loss, whatever learning_rate is."""

    samples: int = 256
    learning_rate: float = 0.1 / 256
    seed: int = 0
    head_epochs: int = HEAD_EPOCHS["gradient"]
    epochs: int = EPOCHS
    is_found: bool = False
    module_rate: float | None = None
    head_rates: tuple[float, ...] = ()


Report = Callable[[str, int, int], None]


def by_gradient(
    problem: Problem, settings: GradientSettings, report: Report = lambda *_: None
) -> Contributions:
    """Importance of every bias depth, layer and share. report: what, done, of how many."""
    started = time.monotonic()
    index, others = chosen_samples(len(problem.train_y), settings)
    rest = replace(problem, train_x=problem.train_x[others], train_y=problem.train_y[others])
    settings, (trunk, head) = _with_head(rest, settings, report)
    names = {layer.index: (layer.weight, layer.bias) for layer in problem.layers}
    plain, _ = without_modules(trunk)
    modules = module_parts(trunk, settings.module_rate)
    picked = {i: _picked(plain, len(names), i, weight) for i, (weight, _) in names.items()}
    grouped = {i: nested_groups(list(by_share.values())) for i, by_share in picked.items()}
    groups = {names[i][0]: found for i, (found, _) in grouped.items()}
    sizes = {
        b: sum(trunk.tensors[n].type.elements for n in (b, *also))
        for b, also in _factors(trunk).items()
    }
    groups |= {b: (np.arange(sizes[b]),) for _, b in names.values()}
    groups |= {name: groups_of for m in modules for name, groups_of in m.groups(trunk).items()}
    products = InnerProducts(groups)

    def watch(gradients: Mapping[str, Array]) -> None:
        columns = {m.name: gradients[m.weight][..., m.first :] for m in modules}
        products.add({**gradients, **columns})

    moments = parameter_moments(trunk, problem, index, settings, report, watch)
    counts = {i: dict(zip(picked[i], numbers, strict=True)) for i, (_, numbers) in grouped.items()}
    steps = settings.epochs * len(problem.train_y)
    known = {name: products.of(name) for name in products.parts}
    known |= {n: tuple(m.rate * p for p in known[n]) for m in modules for n in (m.name, *m.biases)}
    rate = settings.learning_rate
    gains = _product_gains(known, names, counts, modules, rate, steps)
    for measure in MEASURES:
        by_parameter = {name: m.by(measure) for name, m in moments.items()}
        gains[measure] = _gains(names, picked, modules, by_parameter)
    own = {i: plain.tensors[w].type.shape[-1] for i, (w, _) in names.items()}
    return Contributions(
        model=problem.model.name,
        model_digest=problem.model_digest,
        classes=problem.outputs,
        method="gradient",
        layers=tuple(layer.name for layer in problem.layers),
        head={**head, "loss": -head["loss"]},
        gains=gains,
        channels={
            i: tuple(moments[w].by("fisher")[: own[i]].tolist()) for i, (w, _) in names.items()
        },
        kernels=kernels_of(known, names, counts, modules, rate, steps),
        module_rate=settings.module_rate,
        settings={
            **asdict(settings),
            "test_samples": len(problem.test_y),
            "data_digest": problem.data_digest,
            **problem.said_of_targets,
            "seconds": {"wall": round(time.monotonic() - started, 3)},
        },
    )


@dataclass(frozen=True)
class Moments:
    """Moments of one parameter's gradients g of `count` samples, in real weights.

    squares: sum of g², sums: sum of g; both over the samples, sums for each element of the
    parameter, squares added up per channel (the last axis). learning_rate: of the device.
    """

    count: int
    squares: Array
    sums: Array
    learning_rate: float

    def by(self, measure: str) -> Array:
        """fisher, or first_order, of each channel.

        The square of a mean of noisy numbers is too large by their variance: the mean of the
        products of two different samples' gradients is not.
        """
        if self.count < 2:
            raise ValueError(f"{self.count} samples")
        if measure == "fisher":
            return self.squares / self.count
        squared = per_channel(self.sums**2)
        products: Array = (squared - self.squares) / (self.count * (self.count - 1))
        return self.learning_rate * products


def parameter_moments(
    trunk: Graph,
    problem: Problem,
    index: Array,
    settings: GradientSettings,
    report: Report = lambda *_: None,
    watch: Callable[[Mapping[str, Array]], None] = lambda _: None,
) -> dict[str, Moments]:
    """Measure every weight and bias before the head, and the head's. watch: sees each sample's.

    Biases are trained as whole numbers: the sums of a difference have no unit of their own. To a
    bias belong gamma and beta of the normalizations up to the next layer, which are trained with
    it.
    """
    whole = Cut(trunk.inputs[0], 0)
    modules = bool(whole_modules(trunk))
    scheme = UpdateScheme("full", None, {}, None, modules=modules, module_rate=1.0, bias_bits=32)
    step = cut_step(trunk, scheme, whole, problem.targets)
    plan = step.plan(GRADIENT_DTYPE, GROUP)
    report("compiling the full training step", 0, 1)
    project = generate(plan, "gradients")
    simulator = CompiledSimulator(plan, seed=rounding_seed(settings.seed), project=project)
    units = real_units(plan)
    settle = np.resize(index, GROUP * (SETTLING + len(problem.layers)))
    simulator.train(problem.train_x[settle], problem.train_y[settle], [STILL] * len(settle))
    squares: dict[str, Array] = {}
    sums: dict[str, Array] = {}
    factors = _factors(trunk)
    for i, exact in enumerate(_gradients(simulator, units, problem, index)):
        gradients = _joined(exact, factors)
        for name, g in gradients.items():
            squares[name] = squares.get(name, 0.0) + per_channel(g**2)
            sums[name] = sums.get(name, 0.0) + g
        watch(gradients)
        report("gradients", i + 1, len(index))
    rate = settings.learning_rate
    return {name: Moments(len(index), squares[name], sums[name], rate) for name in sums}


def _factors(trunk: Graph) -> dict[str, tuple[str, ...]]:
    """By the bias of each layer: gamma and beta of the normalizations up to the next layer."""
    head = find_head(trunk)
    norms = normalizations_of(trunk, head)
    return {
        layer.bias: tuple(
            name for norm in norms if norm.behind == place for name in norm.parameters
        )
        for place, layer in enumerate(layers_of(trunk, head), 1)
    }


def _joined(
    gradients: Mapping[str, Array], factors: Mapping[str, tuple[str, ...]]
) -> dict[str, Array]:
    """The gradients with those of normalizations behind those of the bias that they belong to."""
    joined = dict(gradients)
    for bias, names in factors.items():
        if names:
            joined[bias] = np.concatenate([joined[bias], *(joined.pop(name) for name in names)])
    return joined


@dataclass(frozen=True)
class Unit:
    """Real gradient of a parameter = sum · 2**(exponent + shift) · factor.

    sum, exponent: names of state tensors; factor: shaped to multiply the sum.
    """

    sum: str
    exponent: str
    shift: int
    factor: Array


def real_units(plan: TrainingPlan) -> dict[str, Unit]:
    """Return, for each trained parameter, what its accumulated integers mean.

    An update subtracts rate · sum · 2**exponent, where rate = qas · scale · 2**residual_bits and
    qas = s⁻² for a parameter of scale s. So the derivative by the real parameter is sum ·
    2**exponent · rate / (2**residual_bits · sqrt(qas)).
    """
    training = plan.training
    states = {new: name for name, new in training.updated.items()}
    units = {}
    for node in training.apply:
        op = node.op
        assert isinstance(op, ApplyUpdate)
        _, total, exponent, parameter, *_ = node.inputs
        tensor = training.graph.tensors[parameter]
        qas = np.array(tensor.type.scales) ** -2.0
        rate = np.array(op.rule.rate) / 2.0**op.rule.residual_bits
        shape = training.graph.tensors[total].type.shape
        factor = rate / np.sqrt(qas if len(set(qas.tolist())) > 1 else qas[0])
        axis = op.rate_axis % len(shape)
        if factor.size > 1:
            factor = factor.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        shift = ACC_DROPPED_BITS[op.dtype]
        units[parameter] = Unit(states[total], states[exponent], shift, factor)
    return units


def per_channel(values: Array) -> Array:
    """Added up over all axes but the last."""
    total: Array = values.reshape(-1, values.shape[-1]).sum(axis=0)
    return total


def _gradients(
    simulator: CompiledSimulator, units: Mapping[str, Unit], problem: Problem, index: Array
) -> Iterator[dict[str, Array]]:
    """Each sample's gradient of every parameter, in real weights."""
    before: dict[str, Array] = {}
    for position, sample in enumerate(index.tolist()):
        here = slice(sample, sample + 1)
        simulator.train(problem.train_x[here], problem.train_y[here], [STILL])
        state = simulator.state
        totals = {name: _real(state, unit) for name, unit in units.items()}
        second = position % GROUP == 1
        yield {n: t - before[n] if second else t for n, t in totals.items()}
        before = totals


def _real(state: Mapping[str, Array], unit: Unit) -> Array:
    exponent = int(state[unit.exponent][0]) + unit.shift
    real: Array = state[unit.sum] * np.ldexp(unit.factor, exponent)
    return real


def chosen_samples(count: int, settings: GradientSettings) -> tuple[Array, Array]:
    """Draw the samples whose gradients are taken, in whole groups, and the others, in random order.

    Raises DataError where there are too few.
    """
    rng = np.random.default_rng(settings.seed)
    wanted = min(settings.samples, count // 2) // GROUP * GROUP
    if wanted == 0:
        raise DataError(
            f"{count} training samples are too few: gradients are taken of at least {GROUP}, and "
            "the classifier is trained on as many others"
        )
    order = rng.permutation(count)
    return order[:wanted], order[wanted:]


def has_learnt(head_loss: float, blank: float) -> bool:
    """Return whether a head's loss is below that of one that knows nothing."""
    return head_loss < LEARNT * blank


def rate_note(found: Contributions, rate: float) -> str:
    """What is to be known of an analysis that was asked for at this rate; empty if nothing is."""
    used = found.settings["learning_rate"]
    if not has_learnt(-found.head["loss"], blank_loss(found.classes, is_real="r2" in found.head)):
        return (
            f"with the head alone nothing was learnt at a learning rate of {used:g}, so gradients "
            "say little of what is worth training: give a smaller rate, or analyze by training"
        )
    if used != rate:
        return (
            f"at a learning rate of {rate:g} the head alone learns nothing; gradients are taken "
            f"at {used:g}"
        )
    return ""


Taught = tuple[Graph, dict[str, float]]
"""The network with a trained head, and what it reaches, see evaluate."""


def learning_head(
    taught: Callable[[float], Taught], settings: GradientSettings, blank: float
) -> tuple[GradientSettings, Taught]:
    """The settings with the highest rate at which the head alone learns, or as they are.

    taught: the head at a rate. blank: the loss of outputs that know nothing.
    """
    first = taught(settings.learning_rate)
    if not settings.is_found or has_learnt(first[1]["loss"], blank):
        return settings, first
    for factor in RATE_FACTORS:
        rate = factor * settings.learning_rate
        found = taught(rate)
        if has_learnt(found[1]["loss"], blank):
            return replace(settings, learning_rate=rate), found
    return settings, first


def _with_head(
    problem: Problem, settings: GradientSettings, report: Report
) -> tuple[GradientSettings, Taught]:
    """The head trained alone, behind features that are computed once."""
    whole = problem.trunk()
    graph, _ = without_modules(whole)
    cuts = (all_cuts(graph)[0], worthwhile_cuts(graph)[-1])
    folder = analysis_folder() / "activations"
    count, every = len(problem.train_x), np.concatenate([problem.train_x, problem.test_x])
    samples = Activations(graph, cuts, every, folder, lambda _, *done: report("features", *done))
    features = samples.at(cuts[-1])

    with HeadTrials.of(whole, cuts[-1], problem.targets) as trials:

        def taught(rate: float) -> Taught:
            trial = TrialSettings(settings.head_epochs, problem.head_rate * rate, settings.seed)
            simulator = trials.trained(features[:count], problem.train_y, trial)
            measured = evaluate(simulator, trials.step, features[count:], problem.test_y)
            return trials.with_head(simulator), measured

        if settings.head_rates:
            best = min(map(taught, settings.head_rates), key=lambda t: t[1]["loss"])
            found = settings, best
        else:
            found = learning_head(taught, settings, problem.blank_loss)
    samples.forget()
    return found


def _product_gains(
    known: Mapping[str, Sequence[Array]],
    names: Mapping[int, tuple[str, str]],
    counts: Mapping[int, Mapping[float, int]],
    modules: Sequence[ModuleParts],
    rate: float,
    steps: int,
) -> dict[str, Gains]:
    """Return what the samples' inner products tell; counts: of groups, by layer and share."""
    least = least_biases(len(names))
    measures: dict[str, tuple[Measure, int]] = {
        "learnable": (lambda p: learnable(p, rate, steps), least),
        JOINT: (lambda p: effective_dimension(p, 2 / (rate * steps)), least),
        "dimension": (lambda p: effective_dimension(p, 1 / (rate * steps)), 0),
    }
    return {n: product_gains(known, names, counts, modules, *of) for n, of in measures.items()}


def least_biases(layers: int) -> int:
    """Biases over which weights are measured at least: of the last eighth of the layers.

    Samples of many classes span no more directions than there are samples, and the last few layers
    are by far the cheapest. Measured by themselves, these would get the credit for all directions.
    """
    return layers // 8


def _gains(
    names: Mapping[int, tuple[str, str]],
    picked: Mapping[int, Mapping[float, Sequence[int]]],
    modules: Sequence[ModuleParts],
    importance: Mapping[str, Array],
) -> Gains:
    """Added up over biases, and over the channels that each share trains."""
    bias = [0.0]
    for i in sorted(names, reverse=True):
        bias.append(bias[-1] + float(importance[names[i][1]].sum()))
    weights = {
        i: {share: float(importance[weight][list(c)].sum()) for share, c in picked[i].items()}
        for i, (weight, _) in names.items()
    }
    of_modules = {}
    for m in modules:
        base = sum(m.rate * float(importance[name].sum()) for name in m.biases)
        every = m.rate * importance[m.weight][m.first :]
        of_modules[m.name] = {n: base + float(every[: n or None].sum()) for n in m.counts}
    return Gains(tuple(bias), weights, of_modules)


def _picked(trunk: Graph, count: int, layer: int, weight: str) -> dict[float, Sequence[int]]:
    """The input channels that each share of a layer trains, in the model's own order."""
    found: dict[float, Sequence[int]] = {}
    for share in SHARES:
        updates = resolve(weight_candidate(count, layer, share).scheme(), trunk)
        channels = updates[weight].channels
        everything = range(trunk.tensors[weight].type.shape[-1])
        found[share] = everything if channels is None else channels
    return found
