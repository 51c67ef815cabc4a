"""A classifier of 100 classes: what int8 outputs, few bits of weights and int8 gradients cost.

    .venv/bin/python benchmarks/many_classes.py --shared ../shared --rates 0.3 1.0 --seeds 3

A class is one of CIFAR-10's together with one of ten fixed changes of the image (quarter turns,
inverted, blurred, darker, …). mcunet-5fps gets a new head and learns one sample per update, in the
device's integers; the frozen front is computed once. Samples, order, rates and the new head's
weights are the same for all variants (--variants takes some of them):

    default       the usual residual bits; int8 gradients
    bits8         8 residual bits everywhere
    settled       100 steps at rate 0 come first, in which the gradients' exponents settle
    batch 8       8 samples an update
    smoothed      a tenth of a label is of all classes alike
    head first    the head alone learns for the first fifth of the epochs
    unlimited     updates move a weight or a bias as far as they like
    float         masters in double precision, neither rounded at random nor limited per update, of
                  which the network computes with the nearest integers (float_masters/)
    int16         as default with int16 gradients: takes ten times as long
    float, int16  float masters with int16 gradients

--data takes another data set, an .npz file or a folder with its own test part, and all of it.

Printed are, for the last state and the test images, the accuracy of the int8 outputs and that of
the int32 sums, in how many images they name another class, in how many the winner stands at the end
of the range, and the exponent to which the outputs' scale has grown. Then, for integer masters, the
accuracy of the int8 outputs with the mean of ten states of the last epoch, and of the last three.
At the end means over the seeds, each with its standard error, and how much more than default a
variant reaches with the same seeds.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.toolchain import cache_folder
from rich.console import Console
from rich.table import Table

from mcutrain import data
from mcutrain.analysis.cut_step import CutStep, cut_step
from mcutrain.analysis.front import Activations, Cut, all_cuts, cut_before, trunk
from mcutrain.analysis.trial import TrialSettings, train, trained_head
from mcutrain.codegen import SAVED_HEADER_BYTES, Project, generate
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.ops.updating import unpack_residual
from mcutrain.pipeline import load
from mcutrain.quant import replace_head
from mcutrain.simulation import CompiledSimulator, PlannedReference, RunSettings, Samples
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, arrange, find_head, parse_scheme
from mcutrain.sparse.scheme import USUAL_BITS, USUAL_HEAD_BITS

Array = npt.NDArray[Any]

MODEL = "models/mcunet-5fps.int8.tflite"
DATA = "data/cifar10_10k2k.npz"
CHANGES = 10
FLOAT_MASTERS = Path(__file__).with_name("float_masters")
STATES = 10
"""States of an epoch that are averaged, the last ones."""
SETTLING_STEPS = 100


@dataclass(frozen=True)
class Variant:
    """What differs between runs. bits: of the layers' and of the head's residuals.

    smoothing: share of a label that is of all classes. head_first: share of the epochs.
    """

    name: str
    bits: tuple[int, int] = (USUAL_BITS, USUAL_HEAD_BITS)
    gradients: str = "int8"
    settling_steps: int = 0
    batch: int = 1
    smoothing: float = 0.0
    head_first: float = 0.0
    is_limited: bool = True
    has_float_masters: bool = False


VARIANTS = (
    Variant("default"),
    Variant("bits8", (8, 8)),
    Variant("settled", settling_steps=SETTLING_STEPS),
    Variant("unlimited", is_limited=False),
    Variant("batch 8", batch=8),
    Variant("smoothed", smoothing=0.1),
    Variant("head first", head_first=0.2),
    Variant("float", has_float_masters=True),
    Variant("int16", gradients="int16"),
    Variant("float, int16", gradients="int16", has_float_masters=True),
)


@dataclass(frozen=True)
class Result:
    """Accuracies on the test images in percent, and the exponent.

    last_epoch, last_three: with the mean of their states; NaN where there is none.
    """

    outputs: float
    sums: float
    differing: float
    clipped: float
    exponent: float
    last_epoch: float = float("nan")
    last_three: float = float("nan")


COLUMNS = ("int8", "sums", "other class", "at the end", "exponent", "1 epoch", "3 epochs")


def main() -> None:
    """Print a line per run, and the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--scheme", default="mcunet-5fps-100kb")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.3, 1.0], help="times 1/256")
    names = [variant.name for variant in VARIANTS]
    usual = ["default", "bits8", "settled", "unlimited", "float"]
    parser.add_argument("--variants", nargs="+", choices=names, default=usual)
    parser.add_argument("--data", type=Path, help="instead of CIFAR-10's changed images")
    parser.add_argument("--head-rate", type=float, default=1.0, help="factor on the head's rate")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=5000)
    arguments = parser.parse_args()
    shared, console = Path(arguments.shared), Console(width=120)
    if arguments.data is None:
        split = dataset(shared / DATA, arguments.samples)
    else:
        split = data.load(arguments.data)
    original = load(shared / MODEL)
    scheme = replace(parse_scheme(arguments.scheme), head_rate=arguments.head_rate)
    for rate in arguments.rates:
        found: dict[str, list[Result]] = {}
        for seed in range(arguments.seeds):
            for variant in (v for v in VARIANTS if v.name in arguments.variants):
                settings = TrialSettings(arguments.epochs, rate / 256, seed)
                result = learn(original, split, scheme, settings, variant)
                found.setdefault(variant.name, []).append(result)
                print(f"{rate}/256, {variant.name}, seed {seed}: {result}", flush=True)
        console.print(table(f"{rate}/256, {arguments.seeds} seeds, percent", found))


def table(title: str, found: dict[str, list[Result]]) -> Table:
    """A row per variant."""
    printed = Table("variant", *COLUMNS, "sums above default", title=title)
    usual = found.get("default")
    for name, results in found.items():
        columns = zip(*(values(result) for result in results), strict=True)
        cells = [with_error(column) for column in columns]
        if usual is None or name == "default":
            above = ""
        else:
            above = with_error([r.sums - u.sums for r, u in zip(results, usual, strict=True)])
        printed.add_row(name, *cells, above)
    return printed


def values(result: Result) -> list[float]:
    """In the order of COLUMNS."""
    return [getattr(result, one.name) for one in fields(result)]


def with_error(found: Sequence[float]) -> str:
    """The mean, with its standard error if there are several."""
    if np.isnan(found).any():
        return ""
    if len(found) == 1:
        return f"{found[0]:.2f}"
    return f"{np.mean(found):.2f} ± {np.std(found, ddof=1) / np.sqrt(len(found)):.2f}"


def dataset(path: Path, samples: int) -> data.Split:
    """100 classes; an image's change is its number among those of its class."""
    split = data.load(path)
    names = tuple(f"{name} {change}" for name in split.names for change in range(CHANGES))
    train_part = split.train.take(np.arange(min(samples, len(split.train))))
    return data.Split(*(changed(part, names) for part in (train_part, split.test)))


def changed(part: data.Dataset, names: tuple[str, ...]) -> data.Dataset:
    """Every image changed, and labelled with what it is and how it was changed."""
    x, change = part.x.copy(), np.zeros(len(part), np.int64)
    for label in np.unique(part.y):
        (at,) = np.nonzero(part.y == label)
        change[at] = np.arange(len(at)) % CHANGES
    for number in range(CHANGES):
        x[change == number] = change_of(part.x[change == number], number)
    return data.Dataset(x, part.y * CHANGES + change, names)


def change_of(x: Array, number: int) -> Array:
    """Images uint8 [n, 32, 32, 3] after one of the changes."""
    if number < 4:
        return np.rot90(x, number, (1, 2))
    stripes = np.indices(x.shape[1:3]).sum(axis=0) % 8 < 2
    others = (
        lambda: 255 - x,
        lambda: np.roll(x, 1, axis=3),
        lambda: np.roll(x, (16, 16), axis=(1, 2)),
        lambda: x[:, ::4, ::4].repeat(4, axis=1).repeat(4, axis=2),
        lambda: x // 3,
        lambda: np.where(stripes[None, :, :, None], np.uint8(128), x),
    )
    return others[number - 4]()


def learn(
    original: Graph,
    split: data.Split,
    scheme: UpdateScheme,
    settings: TrialSettings,
    variant: Variant,
) -> Result:
    """Train behind the frozen front, and compare outputs and sums."""
    bits, head_bits = variant.bits
    scheme = replace(scheme, residual_bits=bits, head_residual_bits=head_bits)
    graph = trunk(replace_head(original, find_head(original).node, len(split.names)))
    cuts = (all_cuts(graph)[0], last_cut(graph, scheme))
    step = cut_step(graph, scheme, cuts[1])
    train_x, test_x = (activations(graph, cuts, x) for x in quantized(graph, split))
    if variant.head_first:
        epochs = max(1, round(variant.head_first * settings.epochs))
        rate = settings.learning_rate * (scheme.head_rate or 1.0)
        first = replace(settings, epochs=epochs, learning_rate=rate)
        graph = trained_head(graph, cuts[1], train_x, split.train.y, first)
        step = cut_step(graph, scheme, cuts[1])
        settings = replace(settings, epochs=settings.epochs - epochs)
    plan = step.plan(variant.gradients, variant.batch)
    project = changed_program(generate(plan, ""), variant, len(split.names))
    simulator = CompiledSimulator(plan, seed=settings.seed + 1, project=project)
    settle(simulator, step.ordered(train_x[: variant.settling_steps]), split.train.y)
    kept = Kept(simulator, settings.epochs, len(train_x))
    train(kept, step, train_x, split.train.y, settings)
    result = compared(simulator, step, test_x, split.test.y)
    if variant.has_float_masters:
        return result
    means = (mean_state(plan, kept.states[-count:]) for count in (STATES, 3 * STATES))
    one, three = (accuracy(simulator, step, test_x, split.test.y, mean) for mean in means)
    return replace(result, last_epoch=one, last_three=three)


def changed_program(project: Project, variant: Variant, classes: int) -> Project:
    """The project as a variant computes."""
    if variant.smoothing:
        project = with_smoothing(project, variant.smoothing, classes)
    if not variant.is_limited:
        project = without_limits(project)
    return with_float_masters(project) if variant.has_float_masters else project


def with_smoothing(project: Project, share: float, classes: int) -> Project:
    """The project with gradients of labels of which a share is of all classes alike."""
    name = "src/mct_softmax_cross_entropy_body.h"
    line = "    *loss_q16 = mct_label_errors(p->classes, best, *label, scratch);\n"
    each = int(share * 2**30) // classes
    added = (
        f"    for (int32_t c = 0; c < p->classes; c++) {{\n        scratch[c] -= {each};\n    }}\n"
        f"    scratch[*label] += {each * classes};\n"
    )
    text = project.files[name]
    assert text.count(line) == 1, "it is replaced"
    return replace(project, files={**project.files, name: text.replace(line, line + added)})


def without_limits(project: Project) -> Project:
    """The project with limits per update that nothing reaches."""
    name = "src/mct_update.h"
    text = re.sub(r"(define MCT_STEP_LIMIT) .*", r"\1 (1 << 14)", project.files[name])
    text = re.sub(r"(define MCT_BIAS_STEP_LIMIT) .*", r"\1 MCT_BIAS_LIMIT", text)
    assert text.count("(1 << 14)") == 1, "it is replaced"
    return replace(project, files={**project.files, name: text})


def with_float_masters(project: Project) -> Project:
    """The project with the files of float_masters/ beside its own, or in their place."""
    texts = {f"src/{path.name}": path.read_text("utf-8") for path in FLOAT_MASTERS.iterdir()}
    assert "src/mct_update.c" in project.files, "it is replaced"
    return replace(project, files={**project.files, **texts})


def settle(simulator: CompiledSimulator, x: Array, y: Array) -> None:
    """Steps that change no weight."""
    if len(x) > 0:
        simulator.train(x, y[: len(x)], [LearningRate.of(0)] * len(x))


@dataclass
class Kept:
    """A simulator that keeps STATES states of each of the last three epochs."""

    simulator: CompiledSimulator
    epochs: int
    samples: int
    trained: int = 0
    states: list[bytes] = field(default_factory=list)

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]:
        """As the simulator's."""
        results = self.simulator.train(x, labels, rates)
        before, self.trained = self.trained, self.trained + len(x)
        tenths = [STATES * trained // self.samples for trained in (before, self.trained)]
        if tenths[0] < tenths[1] and tenths[1] > STATES * (self.epochs - 3):
            self.states.append(self.simulator.save())
        return results


def mean_state(plan: TrainingPlan, saved: Sequence[bytes]) -> bytes:
    """The last state with the mean of all states' parameters, in integers."""
    states = [plan.state.unpack(one[SAVED_HEADER_BYTES:]) for one in saved]
    reference = PlannedReference(plan)
    reference.load(saved[-1])
    for name in plan.training.parameters:
        residual = name.removesuffix(".trained") + ".residual"
        masters = [master(state[name], state.get(residual)) for state in states]
        bits = 0 if residual not in states[0] else residual_bits(states[0], name, residual)
        rounded = (sum(masters) + len(masters) // 2) // len(masters)
        reference.state[name] = (rounded >> bits).astype(states[0][name].dtype)
    return reference.save()


def master(w: Array, residual: Array | None) -> Array:
    """w in units of its residual's last bit; a bias as it is."""
    wide = w.astype(np.int64)
    if residual is None:
        return wide
    bits = 8 * residual.size // w.size
    return (wide << bits) + unpack_residual(residual, bits, w.size).reshape(w.shape)


def residual_bits(state: dict[str, Array], name: str, residual: str) -> int:
    """4 or 8."""
    return 8 * state[residual].size // state[name].size


def accuracy(
    simulator: CompiledSimulator, step: CutStep, x: Array, y: Array, saved: bytes
) -> float:
    """Measure the accuracy of a state's int8 outputs, in percent."""
    before = simulator.save()
    simulator.load(saved)
    outputs = simulator.infer(step.ordered(x))
    simulator.load(before)
    return 100 * float((outputs.argmax(axis=1) == y).mean())


def last_cut(graph: Graph, scheme: UpdateScheme) -> Cut:
    """The latest cut before all that the scheme trains."""
    _, updates = arrange(scheme, graph)
    reads = (i for i, n in enumerate(graph.nodes) if not updates.keys().isdisjoint(n.inputs))
    return cut_before(all_cuts(graph), min(reads))


def quantized(graph: Graph, split: data.Split) -> tuple[Array, Array]:
    """Training and test images as the network takes them."""
    kind = graph.tensors[graph.inputs[0]].type
    samples = Samples.prepare(split, kind.shape[1:], kind.scale, kind.zero_point, RunSettings())
    return samples.train(np.arange(len(split.train)), 0, 0), samples.test(0, len(split.test))


def activations(graph: Graph, cuts: tuple[Cut, ...], x: Array) -> Array:
    """The images at the last cut, kept in the cache."""
    return Activations(graph, cuts, x, cache_folder() / "many-classes").at(cuts[-1])


def compared(simulator: CompiledSimulator, step: CutStep, x: Array, y: Array) -> Result:
    """The int8 outputs' classes, and those of the sums: a step at rate 0 changes no weight."""
    x = step.ordered(x)
    outputs, saved = simulator.infer(x), simulator.save()
    _, sums = simulator.train(x, y, [LearningRate.of(0)] * len(y))
    simulator.load(saved)
    classes = outputs.argmax(axis=1)
    name = simulator.plan.training.output_exponent
    shares = (classes == y, sums == y, classes != sums, outputs.max(axis=1) == 127)
    exponent = 0 if name is None else int(simulator.state[name][0])
    return Result(*(100 * float(share.mean()) for share in shares), exponent)


if __name__ == "__main__":
    main()
