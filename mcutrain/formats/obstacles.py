"""What keeps a model from being read: all of it in one refusal, grouped, with the likely reason.

A reader goes on behind what it cannot take and notes an `Obstacle` each time. One obstacle is told
by its own sentence; several are a list (`mcutrain.errors.ITEM`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ITEM, ModelError, UnsupportedError

MOST_ITEMS = 12
MOST_CHARACTERS = 160  # of an item, without its operator and node
MOST_NAME = 60
_UNKNOWN = " is not supported; supported are "
_NODE = re.compile(r"^node '[^']*': ")
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|[(\[][-\d, ]*[)\]]|-?\d+(\.\d+)?")
"""Names, shapes and numbers: where two sentences say the same of two nodes."""


@dataclass(frozen=True)
class Place:
    """A node of a file. index: among its nodes. where: how sentences about it begin."""

    index: int
    operator: str
    name: str
    where: str


@dataclass(frozen=True)
class Obstacle:
    """Why something cannot be read. place: the node; None for the model itself."""

    error: ModelError
    place: Place | None = None

    @property
    def operator(self) -> str:
        """Operator of the node."""
        return self.place.operator if self.place else ""

    @property
    def cause(self) -> str:
        """What the sentence says behind the operator and the node."""
        text = str(self.error)
        if self.place is None:
            return text
        if not text.startswith(self.place.where):
            return f": {_NODE.sub('', text)}"
        cause = text.removeprefix(self.place.where)
        return _UNKNOWN.partition(";")[0] if cause.startswith(_UNKNOWN) else cause

    @property
    def kind(self) -> tuple[str, str]:
        """Equal for obstacles that are one to a user."""
        return self.operator, _PARTICULARS.sub("", self.cause)


@dataclass(frozen=True)
class Reason:
    """What a network is likely to be. obstacle: such as one of it is, by operator and cause.

    beside: operators that the file must have, too. without: one that it must not have. All are
    patterns; operators are written in lower case without underscores.
    """

    likely: str
    obstacle: str
    beside: tuple[str, ...] = ()
    without: str = ""

    def holds(self, obstacles: Iterable[str], operators: Collection[str]) -> bool:
        """Return whether this reason fits a file with these operators and obstacles."""

        def has(pattern: str) -> bool:
            return any(re.fullmatch(pattern, name) for name in operators)

        if not all(map(has, self.beside)) or (self.without and has(self.without)):
            return False
        return any(re.match(self.obstacle, text) for text in obstacles)


DIFFERENCE = "sub|squareddifference|neg"  # of x and its mean, which layer normalization has
REASONS = (
    Reason(
        "attention with a product of other tensors than MatMul and BATCH_MATMUL are read of: [1, "
        "…, m, k] and [1, …, k, n], with equal axes before the last two",
        r"(batch)?matmul: .*(a product of|are multiplied)|"
        r"(gemm|fullyconnected): .*(that is computed is not|must be constant)|einsum ",
        ("softmax",),
    ),
    Reason(
        "attention as one operator; as its products and Softmax it is read",
        r"\w*attention ",
    ),
    Reason(
        "a normalization in a form that is not read; batch and layer normalization are, and those "
        "of instances and groups in .onnx",
        r"\w*(instancenorm|groupnorm|rmsnorm)|\w+layernorm",
    ),
    Reason(
        "a normalization of each position in parts; layer normalization is read from .onnx, and "
        "for sure as one operator, which exporters write from opset 17 on",
        r"(reducemean|mean|pow|sqrt|rsqrt|squareddifference)\W",
        ("sqrt|rsqrt", DIFFERENCE),
    ),
    Reason(
        "a recurrent network in a form that is not read; LSTM and GRU of .onnx and float .tflite "
        "are, with tanh and sigmoids (of Keras with reset_after=True and unroll=False), and int8 "
        "LSTMs of .tflite",
        r"(\w*(lstm|gru|rnn)|scan|loop|while|unpack) ",
    ),
    Reason(
        "a streaming model, whose variables keep state between calls, beside operators that are "
        "not read; export it without streaming, with the whole window as its input",
        r"(varhandle|readvariable|assignvariable|callonce) ",
    ),
    Reason(
        "post-processing of detections; end the model before it, and compute that in the program",
        r"(nonmaxsuppression\w*|topk\w*|custom \(.*(detection|nms).*\)|\w*(nms|roialign)\w*) ",
    ),
    Reason(
        "operators of TensorFlow's own; convert the model with TFLite's built-in ones only",
        r"custom \(flex",
    ),
)
UNPREPARED = Reason(
    "a float model that was quantized as it was exported; onnxruntime's quant_pre_process before "
    "its quantizer folds normalizations, and makes layers of parts",
    r"batchnormalization |\w+: a float input ",
)


CHOICES = r"(greater|less|equal|notequal)(orequal|equal)?|and|or|not|xor|logical\w*|select\w*|where"
STEPS = r"sign|floor|ceil|round|thresholdedrelu|shrink"
WAYS_OUT = {
    f"{CHOICES}|{STEPS}": "no gradient goes through a choice by computed numbers: write it as Max, "
    "Min, Clip or Relu",
    r"arg(max|min)|topk\w*|nonzero|onehot|nonmaxsuppression\w*|scatter\w*|gathernd": "end the "
    "model before it, and compute it in the program",
    r"if|loop|scan|while": "export the model without control flow, as a recording of one run is",
    r"dynamicquantizelinear|(matmul|conv)integer": "quantize statically, as onnxruntime's "
    "quantize_static does, or give the float model to `mcutrain quantize`",
    r"cumsum|gatherelements": "positions that are counted from the input: export the model with "
    "constant ones, as with position_ids in transformers",
    r"random\w*|bernoulli|multinomial": "export the model for inference (model.eval() in PyTorch)",
    r"lrn|localresponsenormalization": "train the model with batch normalization in its place",
}
"""What to do about operators without a rule, by patterns as `Reason` has them."""


def unknown(where: str, known: Iterable[str], reason: str = "") -> UnsupportedError:
    """An error for an operator without a rule, with the reason or a way out if there is one."""
    name = _plain(where.removeprefix("operator ").partition(" ")[0])
    ways = (way for pattern, way in WAYS_OUT.items() if re.fullmatch(pattern, name))
    if reason := reason or next(ways, ""):
        return UnsupportedError(f"{where} is not supported; {reason}")
    return UnsupportedError(f"{where}{_UNKNOWN}{', '.join(sorted(known))}")


class Obstacles:
    """Obstacles of one file. operators: the names of all its nodes' ones. reasons: likely ones."""

    def __init__(self, operators: Iterable[str], reasons: Collection[Reason] = REASONS) -> None:
        self._reasons = reasons
        self._operators = {_plain(name) for name in operators}
        self._found: list[Obstacle] = []

    @contextmanager
    def told(self, scan: Callable[[], Iterable[Obstacle]]) -> Iterator[None]:
        """Read a file in here. Raises ModelError, of the first one's class, with all in the way.

        scan: what can be said of nodes without reading the file; for those not reached. Other
        errors pass, but not behind an obstacle, of which they may be a consequence.
        """
        try:
            yield
        except ModelError as error:
            if str(error) not in {str(o.error) for o in self._found}:
                self._found.append(Obstacle(error))
        except MemoryError:
            raise
        except Exception:
            if not self._found:
                raise
        if self._found:
            reached = {o.place.index for o in self._found if o.place}
            self._found += [o for o in scan() if o.place and o.place.index not in reached]
            first = self._found[0].error
            raise type(first)(self._text()) from first

    @contextmanager
    def noted(self, place: Place | None = None) -> Iterator[None]:
        """Go on behind what is refused in here. place: the node that is read."""
        try:
            yield
        except ModelError as error:
            self._found.append(Obstacle(error, place))

    def _text(self) -> str:
        """One sentence, or a list of them."""
        groups = self._groups()
        likely = self._likely(groups)
        if len(groups) == 1:
            return "; ".join((_sentence(groups[0]), *(f"likely {reason}" for reason in likely)))
        items = [_item(group) for group in groups[:MOST_ITEMS]]
        if len(groups) > MOST_ITEMS:
            others = {first.operator: None for first, *_ in groups[MOST_ITEMS:]}
            count = len(groups) - MOST_ITEMS
            items.append(_short(f"and {count} more: {', '.join(others)}", MOST_CHARACTERS))
        items += [f"likely {reason}" for reason in likely]
        nodes = len({o.place.index for group in groups for o in group if o.place})
        places = f", in {nodes} node{'s' * (nodes > 1)}" if nodes else ""
        head = f"the model has {len(groups)} obstacles{places}"
        return ITEM.join((f"{head} (`mcutrain operators` lists what is read):", *items))

    def _groups(self) -> list[list[Obstacle]]:
        """Group obstacles of one kind, in the file's order; what is about the model comes first."""
        groups: dict[tuple[str, str], list[Obstacle]] = {}
        for one in sorted(self._found, key=lambda o: o.place.index if o.place else -1):
            groups.setdefault(one.kind, []).append(one)
        return list(groups.values())

    def _likely(self, groups: list[list[Obstacle]]) -> list[str]:
        """Each reason once."""
        texts = [_plain(first.operator) + first.cause + " " for first, *_ in groups]
        found = [reason.likely for reason in self._reasons if reason.holds(texts, self._operators)]
        return list(dict.fromkeys(found))


def _sentence(group: list[Obstacle]) -> str:
    """Return what the first says; of how many more nodes it is true."""
    first, *more = group
    text, where = str(first.error), first.place.where if first.place else ""
    if not more or not where.endswith(")"):
        return text
    return text.replace(where, f"{where[:-1]} and {len(more)} more)", 1)


def _item(group: list[Obstacle]) -> str:
    """A line of the list: operator, how many nodes, the first one's name, and what is wrong."""
    first = group[0]
    cause = _short(first.cause, MOST_CHARACTERS)
    if first.place is None:
        return cause
    name = _short(first.place.name, MOST_NAME)
    places = f"{len(group)} nodes, the first {name!r}" if len(group) > 1 else f"node {name!r}"
    return f"{_short(first.operator, MOST_NAME)} ({places}){cause}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _plain(operator: str) -> str:
    """A name as the patterns have it, of either format."""
    return operator.lower().replace("_", "")
