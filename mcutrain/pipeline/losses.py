"""Which loss and head a network is trained with: as asked for, or as outputs and data suggest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

from mcutrain.autodiff import LossFactory
from mcutrain.data import IGNORED, Outputs, Split, Targets
from mcutrain.data.dataset import listed
from mcutrain.errors import DataError, SchemeError, some_of
from mcutrain.ir.graph import Graph, Tensor
from mcutrain.ops.binary_cross_entropy import BinaryCrossEntropy
from mcutrain.ops.distilled_cross_entropy import DistilledCrossEntropy
from mcutrain.ops.mean_squared_error import MAX_ELEMENTS, MeanSquaredError
from mcutrain.ops.position_cross_entropy import PositionCrossEntropy
from mcutrain.ops.sigmoid_cross_entropy import SigmoidCrossEntropy
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.target_error import Kind, RealTargetError
from mcutrain.ops.weighted_cross_entropy import WeightedCrossEntropy
from mcutrain.pipeline.emphasis import balanced, of_classes, of_labels
from mcutrain.pipeline.step_options import StepOptions
from mcutrain.quant import ends_in_sigmoids, gives_one_logit, told_apart
from mcutrain.sparse import find_head

LossName = Literal["cross-entropy", "binary-cross-entropy", "mse", "huber", "absolute", "auto"]
CROSS_ENTROPY: LossName = "cross-entropy"
BINARY_CROSS_ENTROPY: LossName = "binary-cross-entropy"
MEAN_SQUARED_ERROR: LossName = "mse"
HUBER: LossName = "huber"
ABSOLUTE: LossName = "absolute"
AUTO: LossName = "auto"
KEEP = "keep"
OF_TARGETS: Mapping[str, Kind] = {"mse": "squared", "huber": "huber", "absolute": "absolute"}
"""Losses of regression to real targets."""


FEW_STEPS = 16
"""Fewer steps than that say too little of a target."""
MOST_SAID = 4
"""Targets whose units a note says."""
ONE_OUTPUT = (
    "the model has one output for two classes, so the loss is the cross-entropy of its sigmoid; "
    "the output says the second class above the middle"
)
A_SIGMOID_EACH = (
    "the loss is the cross-entropy of a sigmoid for each of the {count} labels of a sample, as "
    "{why}; {way}"
)
ONE_CLASS_EACH = "--loss cross-entropy learns one class for each sample"
ONE_CLASS_BY_NEW_HEAD = (
    "`--loss cross-entropy --classes N` puts a new head there, for one class for each sample"
)


NO_LABELS = (
    "class_weights and label_smoothing are for labels, which the loss {} does not have: leave them "
    "out"
)
NO_DISTANCE = "distill keeps the answers of a classifier, which {} lacks: leave it out"
NAMES_OF_TARGETS = (
    "class names are of classes, but the data has real targets, whose order is that of the columns "
    "(--targets): leave out --class-names"
)
NAMES_OF_SEVERAL = (
    "class names are of one output, and the numbers of several outputs' data are their classes: "
    "leave them out, or name one output (--model-output)"
)
NEEDS_TARGETS = (
    "the loss {} compares the outputs with real targets, and the data has none: save y as float32, "
    "one number or several for each sample, or name the columns of a CSV (--targets)"
)


def choose_loss(graph: Graph, name: str = AUTO) -> LossName:
    """What is meant by auto: mse for a network that reproduces its input, else cross-entropy.

    For a network that ends in several sigmoids auto is the binary one of each.

    Raises SchemeError for a name that is none, and for mse where the outputs are something else.
    """
    if name not in get_args(LossName):
        known = ", ".join(get_args(LossName)[:-1])
        raise SchemeError(f"there is no loss {name!r}: take {known} or auto")
    if name in (HUBER, ABSOLUTE):
        raise SchemeError(NEEDS_TARGETS.format(name))
    if name == BINARY_CROSS_ENTROPY or (name == AUTO and ends_in_sigmoids(graph)):
        return _of_sigmoids(graph)
    if name == CROSS_ENTROPY and ends_in_sigmoids(graph):
        raise SchemeError(
            f"{graph.name!r} ends in a sigmoid for each output, of which each says yes or no by "
            "itself: take the loss binary-cross-entropy, or a model without the sigmoids"
        )
    reason = None if name == CROSS_ENTROPY else _why_not(graph)
    if name == MEAN_SQUARED_ERROR and reason is not None:
        raise SchemeError(
            f"mean squared error compares the outputs of {graph.name!r} with its inputs, but "
            f"{reason}: take the loss cross-entropy, or a model that reproduces its input"
        )
    is_mse = name != CROSS_ENTROPY and reason is None
    return MEAN_SQUARED_ERROR if is_mse else CROSS_ENTROPY


def _of_sigmoids(graph: Graph) -> LossName:
    """Return the loss of sigmoids; of a single one for a sample it is cross-entropy.

    Raises SchemeError where a softmax follows.
    """
    if graph.gives_probabilities and not (ends_in_sigmoids(graph) or _is_binary(graph)):
        raise SchemeError(
            f"{graph.name!r} ends in a softmax, by which its outputs are one choice, and "
            "binary-cross-entropy learns a yes or no of each: take the loss cross-entropy, a new "
            "head (--classes N), or a model that ends with its last layer or sigmoids"
        )
    return CROSS_ENTROPY if _is_binary(graph) else BINARY_CROSS_ENTROPY


def choose_loss_for_data(
    graph: Graph, name: str, classes: int | None, has_positions: bool = False
) -> LossName:
    """Choose the loss for a data set.

    classes: how many its labels tell apart; None if it has no labels.

    has_positions: whether samples have a label for each position, which is cross-entropy. auto is
    mse for a network that reproduces its input, unless it has an output for each class. Raises
    DataError if the labels are missing that the loss needs.
    """
    if classes is not None and has_positions:
        return choose_loss(graph, CROSS_ENTROPY if name == AUTO else name)
    if classes is not None:
        outputs = 2 if _is_binary(graph) else _logits(graph).type.elements
        return CROSS_ENTROPY if name == AUTO and outputs == classes else choose_loss(graph, name)
    reason = _why_not(graph)
    if name == CROSS_ENTROPY or (name == AUTO and reason is not None):
        why = f"; {graph.name!r} cannot learn without, because {reason}" if reason else ""
        raise DataError(
            "the data has no labels, which cross-entropy needs: save y (or y_train and y_test), or "
            f"take the loss mse and a model that reproduces its input{why}"
        )
    return choose_loss(graph, name)


def positions_of(graph: Graph) -> tuple[int, ...]:
    """Where a network gives a class for each position, their shape; empty where it gives one.

    Raises SchemeError where something behind the head takes positions and classes apart.
    """
    head, sums = find_head(graph).name, _logits(graph).type.shape
    if math.prod(sums[:-1]) == 1:
        return ()
    outputs = graph.tensors[graph.outputs[0]].type.shape
    if outputs[-1] != sums[-1]:
        raise SchemeError(
            f"the head {head!r} of {graph.name!r} gives {sums[-1]} numbers at each of "
            f"{math.prod(sums[:-1]):,} positions, but the outputs {outputs} do not end in these: "
            "cross-entropy at each position needs the classes last, or one position, by a mean "
            "before the head"
        )
    return sums[1:-1]


def label_shape(graph: Graph) -> tuple[int, ...]:
    """The shape of a sample's labels where each output has one."""
    return without_ones(_logits(graph).type.shape[1:])


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without axes of length 1, of which one stays if there is no other."""
    return tuple(n for n in shape if n > 1) or (1,)


def loss_of(
    graph: Graph, name: str, weights: tuple[float, ...] = (), smoothing: float = 0.0
) -> LossFactory:
    """Return what makes the loss operator for `differentiate`.

    weights: of classes, see mcutrain.pipeline.emphasis. smoothing: of labels. Raises SchemeError as
    choose_loss does, and where they do not fit.
    """
    chosen = choose_loss(graph, name)
    if chosen == BINARY_CROSS_ENTROPY:
        channels = _own_channels(graph)
        pairs = of_labels(weights, channels)
        return SigmoidCrossEntropy.of(label_shape(graph), channels, pairs, smoothing)
    if weights or smoothing:
        return _weighted(graph, chosen, weights, smoothing)
    if chosen == CROSS_ENTROPY:
        if _is_binary(graph):
            return BinaryCrossEntropy
        positions = positions_of(graph)
        if _own_outputs(graph) == 1:
            raise SchemeError(
                f"{graph.name!r} gives one number at each position: --loss binary-cross-entropy "
                "learns these, and --classes 2 puts a head there with one for each class"
            )
        return PositionCrossEntropy.of((1, *positions)) if positions else SoftmaxCrossEntropy
    return MeanSquaredError.of(graph.tensors[graph.inputs[0]].type)


def distilled(graph: Graph, chosen: str, options: StepOptions) -> LossFactory:
    """Cross-entropy that also keeps the answers of the classifier in flash.

    Raises SchemeError where there are none, or not of one class for each sample.
    """
    if chosen != CROSS_ENTROPY or _is_binary(graph) or positions_of(graph):
        what = "one class of several for each sample"
        raise SchemeError(NO_DISTANCE.format(f"what this model learns, which is not {what}"))
    if options.classes is not None:
        raise SchemeError(
            "distill keeps what the classifier in flash says, and a new one says nothing: keep the "
            "model's own (--classes keep), or add classes to it (--add-class)"
        )
    if options.class_weights or options.label_smoothing:
        raise SchemeError(
            "distill does not go with class_weights and label_smoothing: leave these out, or it"
        )
    return DistilledCrossEntropy.of(options.distill, _own_outputs(graph) - len(options.added))


def _weighted(
    graph: Graph, chosen: LossName, weights: tuple[float, ...], smoothing: float
) -> LossFactory:
    """Cross-entropy with weights and smoothing. Raises SchemeError for losses that have none."""
    if chosen != CROSS_ENTROPY:
        raise SchemeError(NO_LABELS.format(chosen))
    if positions_of(graph):
        raise SchemeError(
            f"{graph.name!r} gives a class for each position, where class_weights and "
            "label_smoothing are not known: leave them out; masks of one output can have weights "
            "(--loss binary-cross-entropy)"
        )
    own = of_classes(weights, _own_outputs(graph))
    return WeightedCrossEntropy.of(own, smoothing, _is_binary(graph))


def weights_for(graph: Graph, fitted: Fitted, added: int = 0) -> str:
    """Weights of classes that are balanced by the labels of the training samples, as a text."""
    if fitted.loss == BINARY_CROSS_ENTROPY:
        return balanced(fitted.split, fitted.classes or _own_channels(graph), are_labels=True)
    if fitted.loss != CROSS_ENTROPY or fitted.split.positions:
        raise SchemeError(
            "class_weights are balanced by one label for each sample, or for each output, which "
            "this loss does not have: leave them out"
        )
    return balanced(fitted.split, (fitted.classes or _own_outputs(graph)) + added, are_labels=False)


def loss_to_targets(
    graph: Graph,
    name: str,
    targets: Targets,
    weights: tuple[float, ...] = (),
    smoothing: float = 0.0,
) -> LossFactory:
    """What makes the loss operator of regression. targets: in the quantization of the outputs.

    weights, smoothing: none, see loss_of. Raises SchemeError for a loss of something else, and for
    outputs of another quantization.
    """
    if name not in OF_TARGETS:
        raise SchemeError(f"real targets are learnt by mse, huber or absolute, not by {name!r}")
    if weights or smoothing:
        raise SchemeError(NO_LABELS.format(name))
    y = _logits(graph).type
    if (y.scale, y.zero_point) != (targets.scale, targets.zero_point):
        raise SchemeError(
            f"the targets have the scale {targets.scale:g} and the zero point "
            f"{targets.zero_point}, but the outputs {y.scale:g} and {y.zero_point}: take the "
            "data's again"
        )
    return RealTargetError.of(y, OF_TARGETS[name])


class Fitted(NamedTuple):
    """A head for a data set, and the data set for the head.

    classes: outputs of a new head; None keeps the model's own. split: its labels are numbers of
    outputs. class_names: of the outputs, where they are known or follow from the data. notes: what
    was guessed. forgets: what may be forgotten where nothing is replayed. targets: of regression,
    whose integers the split then has.
    """

    classes: int | None
    loss: str
    split: Split
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    forgets: str = ""
    targets: Targets | None = None


def fit_to_data(
    graph: Graph,
    split: Split,
    classes: int | str,
    loss: str,
    added: tuple[str, ...],
    given: Sequence[str] = (),
) -> Fitted:
    """The outputs of a new head (None: the model's own), the loss, and ordered labels.

    classes: a number, keep or auto. given: names of the outputs that count before the model's own.
    Raises DataError where data, model, loss, added classes and names do not fit.
    """
    if graph.row:
        raise DataError(
            f"this looks at one output, but {some_of(map(repr, graph.output_names))} were named: "
            "name one of them (--model-output), or train them by simulate"
        )
    if split.has_targets:
        return fit_targets(graph, split, classes, loss, added, given)
    if loss in (HUBER, ABSOLUTE):
        raise DataError(NEEDS_TARGETS.format(loss))
    if added:
        if not split.is_labelled:
            choose_loss_for_data(graph, "cross-entropy", None)
        kept = classes if isinstance(classes, int) else None
        return _fitted(graph, split, kept, "cross-entropy", added, given)
    why = _why_sigmoids(graph, split, classes, loss)
    if why:
        return _fit_labels(graph, split, classes, given, why)
    if isinstance(classes, int):
        loss = "cross-entropy" if loss == "auto" else loss
    else:
        names = len(split.names) if split.is_labelled else None
        if names is not None and _own_outputs(graph) == len(given or graph.class_names):
            names = _own_outputs(graph)  # the data may have some of the model's classes
        loss = choose_loss_for_data(graph, loss, names, bool(split.positions))
    if loss == "mse":
        kept = classes if isinstance(classes, int) else None
        return Fitted(kept, loss, split.without_labels())
    return fit_classes(graph, split, classes, given)._replace(loss=loss)


def _why_sigmoids(graph: Graph, split: Split, classes: int | str, loss: str) -> str:
    """Say why each output learns a label by itself; empty where it does not."""
    if loss == BINARY_CROSS_ENTROPY:
        is_one = _is_binary(graph) and classes in (KEEP, AUTO, 2)
        return "" if is_one and not split.positions else "the flag says"
    if loss != AUTO or not split.is_labelled:
        return ""
    if ends_in_sigmoids(graph):
        return "the model ends in sigmoids"
    if not split.may_have_rows:
        return ""
    is_row = math.prod(_logits(graph).type.shape[1:-1]) == 1
    return "the data's labels are rows of 0 and 1" if is_row else ""


def _fit_labels(
    graph: Graph, split: Split, classes: int | str, given: Sequence[str], why: str
) -> Fitted:
    """Fit a head of which each output has a label of its own, 0 or 1.

    Raises DataError where labels and outputs do not fit.
    """
    if not split.is_labelled:
        raise DataError(
            "the data has no labels, which binary-cross-entropy needs: save y (or y_train and "
            "y_test), rows of 0 and 1 with a number for each output"
        )
    rows, guess = (split, "") if split.positions else _rows(graph, split, classes, given)
    if rows.highest > 1:
        raise DataError(
            f"binary-cross-entropy takes labels that are 0 or 1 ({IGNORED}: not known), but the "
            f"data's go up to {rows.highest}: save these, or take the loss cross-entropy"
        )
    shape, places = rows.positions, _logits(graph).type.shape[1:-1]
    wanted = classes if isinstance(classes, int) else None
    if classes == AUTO and label_shape(graph) != shape:
        wanted = max(math.prod(shape) // math.prod(places), 1)
    outputs = (*places, _own_channels(graph) if wanted is None else wanted)
    if without_ones(outputs) != shape:
        raise DataError(
            f"a sample has labels of the shape {shape}, but the model has outputs of the shape "
            f"{without_ones(outputs)}, of which each needs one: save a label for each output"
            + (f", or give it a head of {shape[0]} (--classes {shape[0]})" * (len(shape) == 1))
        )
    way = ONE_CLASS_BY_NEW_HEAD if ends_in_sigmoids(graph) else ONE_CLASS_EACH
    note = A_SIGMOID_EACH.format(count=f"{math.prod(shape):,}", why=why, way=way)
    if len(shape) > 1:
        return Fitted(wanted, BINARY_CROSS_ENTROPY, rows, notes=(note,))
    known = () if wanted is not None or len(graph.class_names) != shape[0] else graph.class_names
    own_names = () if rows.has_numbers_for_names or len(rows.names) != shape[0] else rows.names
    named = Outputs.of(shape[0], known or own_names, given, is_new=wanted is not None)
    rows = in_order(rows, named) if split.positions else rows
    names = named.names or tuple(map(str, range(shape[0])))
    notes = (note, guess) if guess else (note,)
    return Fitted(wanted, BINARY_CROSS_ENTROPY, rows.with_names(names), named.names, notes)


def _rows(
    graph: Graph, split: Split, classes: int | str, given: Sequence[str]
) -> tuple[Split, str]:
    """A row of 0 and 1 for the one label of a sample, a column for each output; what was guessed.

    Raises DataError for classes that named outputs do not have.
    """
    guess = ""
    if math.prod(_logits(graph).type.shape[1:-1]) == 1:
        wanted = classes_for(graph, split, classes, given)
        count = _own_channels(graph) if wanted is None else wanted
        if len(split.names) <= count:
            known = graph.class_names if wanted is None else ()
            outputs = Outputs.of(count, known, given, is_new=wanted is not None)
            guess, split = outputs.guess(split), outputs.labelled(split)
    return split.with_rows(), guess


def in_order(rows: Split, outputs: Outputs) -> Split:
    """Rows of labels in the order of the outputs, where data and outputs have names.

    Raises DataError where the two do not have the same names.
    """
    own, names = rows.names, outputs.names
    is_unnamed = rows.has_numbers_for_names or len(own) != outputs.count
    if own == names or is_unnamed or not names:
        return rows.with_names(names) if names else rows
    if sorted(own) != sorted(names):
        raise DataError(
            f"the data has labels of {listed(own)}, but the outputs are {listed(names)}, by "
            f"{outputs.source}: name the data's columns as the outputs, or the outputs as the "
            "columns (--class-names)"
        )
    order = [own.index(name) for name in names]
    rows = rows.each(lambda part: replace(part, y=part.y[:, order] if part.is_labelled else part.y))
    return rows.with_names(names)


def fit_targets(
    graph: Graph,
    split: Split,
    classes: int | str,
    loss: str = AUTO,
    added: tuple[str, ...] = (),
    given: Sequence[str] = (),
) -> Fitted:
    """Fit a head for real targets: the model's own if it gives as many numbers, else a new one.

    Raises DataError for targets of which nothing can be learnt, and where data and head do not fit.
    """
    names, y = split.names, split.train.y
    if given:
        raise DataError(NAMES_OF_TARGETS)
    if added:
        raise DataError("--add-class adds classes, but the data has real targets: leave it out")
    if loss == CROSS_ENTROPY:
        raise DataError(
            "cross-entropy learns classes, but the data has real targets: leave out --loss, or "
            "save class numbers as integers"
        )
    if loss == BINARY_CROSS_ENTROPY:
        raise DataError(
            "binary-cross-entropy learns labels that are 0 or 1, but the data has real targets: "
            "leave out --loss, or save rows of 0 and 1"
        )
    if isinstance(classes, int) and classes != len(names):
        raise DataError(
            f"--classes {classes} puts a head with {classes} outputs there, but each sample has "
            f"{len(names)} targets: leave it out"
        )
    for name, column in zip(names, y.T, strict=True):
        if float(column.min()) == float(column.max()):
            raise DataError(
                f"{name[:40]!a} is {column[0]:g} in all training samples, so nothing can be learnt "
                "of it: leave that target out, or add samples where it differs"
            )
    logits = _logits(graph).type
    fits = logits.elements == len(names) and not graph.gives_probabilities
    if classes == "keep" and not fits:
        what = "probabilities" if graph.gives_probabilities else f"{logits.elements:,} numbers"
        raise DataError(
            f"the model gives {what}, but each sample has {len(names)} targets: leave out "
            "--classes keep, and the model gets a new head"
        )
    is_new = isinstance(classes, int) or not fits
    targets = Targets.spanning(y) if is_new else Targets(logits.scale, logits.zero_point)
    chosen: LossName = MEAN_SQUARED_ERROR if loss == AUTO else loss  # type: ignore[assignment]
    coded = split.each(lambda part: replace(part, y=targets.codes(part.y)))
    notes = _target_notes(split, targets, loss, is_new=is_new)
    return Fitted(len(names) if is_new else None, chosen, coded, notes=notes, targets=targets)


def _target_notes(split: Split, targets: Targets, loss: str, *, is_new: bool) -> tuple[str, ...]:
    """Return what is to be said of targets and the outputs that learn them."""
    said = []
    if loss == AUTO:
        said.append("the labels are real numbers, so the loss is mse, the mean squared error")
    clipped = sum(targets.clipped(part.y) for part in (split.train, split.test))
    of = split.train.y.size + split.test.y.size
    reach, limits = _span(", ", targets, targets.reach), _span(" to ", targets, targets.limits)
    if clipped:
        way = "" if is_new else f"; --classes {len(split.names)} puts a new head there that does"
        said.append(
            f"{clipped:,} of {of:,} targets lie beyond what int8 outputs say{reach}, "
            f"and are learnt as far as that goes{way}"
        )
    if cut := sum(targets.cut(part.y) for part in (split.train, split.test)):
        said.append(
            f"{cut:,} of {of:,} targets are cut{limits}, and errors are told of what is left of "
            "them: they are larger"
        )
    for name, column in zip(split.names, split.train.y.T, strict=True):
        steps = float(column.max() - column.min()) / targets.scale
        if steps < FEW_STEPS and not targets.units:
            said.append(
                f"{name[:40]!a} spans {steps:.1f} of 255 steps of the outputs, whose one scale is "
                f"for all targets: --classes {len(split.names)} puts a new head there, in which "
                "each has its own"
            )
    if targets.units:
        least, most = min(targets.units), max(targets.units)
        units = list(zip(split.names, targets.units, targets.zeros, strict=True))
        each = ", ".join(
            f"{name[:40]!a} is {zero:g} + {unit:g} * its output"
            for name, unit, zero in units[:MOST_SAID]
        )
        each += ", and so on, as the recipe has it" if len(targets.units) > MOST_SAID else ""
        said.append(
            f"the targets span {least:g} to {most:g}, of which one scale would leave the least "
            f"{255 * least / most:.1f} steps: each is learnt from 0 to 1, and the loss counts them "
            f"alike. In an exported file {each}"
        )
    elif targets.offset:
        said.append(
            f"all targets are far from 0, so the outputs are the target less {targets.offset:g}: "
            "add that to what an exported file gives"
        )
    return tuple(said)


def _span(before: str, targets: Targets, ends: tuple[Any, Any]) -> str:
    """From the one end to the other, where that is the same for all targets."""
    low, high = ends
    return "" if targets.units else f"{before}{float(low[0]):g} to {float(high[0]):g}"


def fit_classes(
    graph: Graph, split: Split, classes: int | str, given: Sequence[str] = ()
) -> Fitted:
    """Fit a head for cross-entropy, without added classes. Raises DataError for no labels, too."""
    if split.has_targets:
        raise DataError(
            "this learns classes, but the data has real targets: give class numbers, or train the "
            "targets by simulate"
        )
    wanted = classes_for(graph, split, classes, given)
    fitted = _fitted(graph, split, wanted, CROSS_ENTROPY, (), given)
    names, outputs = len(split.names), _own_outputs(graph)
    if wanted in (None, 2) and _is_binary(graph):
        fitted = fitted._replace(notes=(ONE_OUTPUT, *fitted.notes))
    if classes == AUTO and wanted is None and fitted.class_names and names < outputs:
        note = (
            f"the data's {names} classes are among the model's {outputs}, so its classifier stays; "
            f"--classes {names} puts a new one there"
        )
        fitted = fitted._replace(notes=(note, *fitted.notes))
    return fitted


def _fitted(
    graph: Graph,
    split: Split,
    wanted: int | None,
    loss: str,
    added: tuple[str, ...],
    given: Sequence[str],
) -> Fitted:
    """Return the data with labels that are numbers of outputs."""
    count = (_own_outputs(graph) if wanted is None else wanted) + len(added)
    known = graph.class_names if wanted is None else ()
    outputs = Outputs.of(count, known, given, added, is_new=wanted is not None)
    labelled = outputs.labelled(split)
    guess, forgets = outputs.guess(split), outputs.forgets(labelled)
    is_whole = len(labelled.names) == count and not labelled.has_numbers_for_names
    names = outputs.names or (labelled.names if is_whole and not labelled.positions else ())
    return Fitted(wanted, loss, labelled, names, (guess,) if guess else (), forgets)


def classes_for(
    graph: Graph, split: Split, classes: int | str, given: Sequence[str] = ()
) -> int | None:
    """The outputs of a new head for this data, None to keep the model's own.

    given: as fit_to_data has it. auto keeps it if the data has as many classes, or if the outputs
    have names of which the data has some. Raises DataError for data without labels.
    """
    if not split.is_labelled:
        choose_loss_for_data(graph, "cross-entropy", None)
    if isinstance(classes, int):
        return classes
    outputs = _own_outputs(graph)
    if split.positions and split.has_numbers_for_names and len(split.names) <= outputs:
        return None  # the last classes may be in none of the images
    if classes == "keep" or len(split.names) == outputs:
        return None
    known = given or graph.class_names
    if len(known) == outputs and not set(known).isdisjoint(split.names):
        return None
    if len(split.names) == 1:
        raise DataError(
            f"all samples are of one class, {split.names[0]!r}, and a new classifier needs two: "
            "add samples of another, or keep the model's own (--classes keep)"
        )
    return len(split.names)


def _own_outputs(graph: Graph) -> int:
    """Classes of the model's own head."""
    return told_apart(graph, find_head(graph).node)


def _own_channels(graph: Graph) -> int:
    """Numbers that it gives at each position."""
    return _logits(graph).type.shape[-1]


def _is_binary(graph: Graph) -> bool:
    """Return whether it has one output, of which a sigmoid tells two classes apart."""
    return gives_one_logit(graph, find_head(graph).node)


def _logits(graph: Graph) -> Tensor:
    """Return what the loss reads the sums of."""
    return graph.tensors[graph.logits_node(find_head(graph).node).outputs[0]]


def _why_not(graph: Graph) -> str | None:
    """Return why outputs and inputs cannot be compared; None if they can."""
    inputs = graph.tensors[graph.inputs[0]].type.elements
    outputs = _logits(graph).type.elements
    if inputs != outputs:
        return f"it has {outputs:,} outputs and {inputs:,} inputs"
    if graph.gives_probabilities:
        return "its outputs are probabilities (a softmax)"
    if inputs > MAX_ELEMENTS:
        return f"its {inputs:,} outputs are more than {MAX_ELEMENTS:,}"
    return None
