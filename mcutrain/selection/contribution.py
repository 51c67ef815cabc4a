"""What training each bias and each layer's weights contributes: the result of an analysis."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.reading import read_text
from mcutrain_host.text import reason

from mcutrain.errors import AnalysisError
from mcutrain.ir.graph import Graph
from mcutrain.selection.kernels import Kernels, products_of
from mcutrain.shown import Record, Shown
from mcutrain.sparse.layers import find_head
from mcutrain.sparse.scheme import RATE_FACTORS, RESIDUAL_BITS, USUAL_BITS, UpdateScheme

Array = npt.NDArray[Any]
T = TypeVar("T")
N = TypeVar("N", int, float)
FORMAT = 1
METHODS = ("training", "gradient")
SHARES = (0.125, 0.25, 0.5, 1.0)
"""Shares of a layer's input channels that are analysed; the scheme's granularity."""

JOINT = "joint"
"""What a scheme learns as a whole, by the analysis' kernels; its gains are those of each alone."""
MEASURES = (
    "accuracy",
    "probability",
    "r2",
    "loss",
    "learnable",
    JOINT,
    "dimension",
    "fisher",
    "first_order",
)
"""accuracy, probability (mean probability of the right class), r2 (of real targets), loss (nats, or
1 less r2, as a reduction): gained by training. learnable, joint, dimension, fisher, first_order:
importance from gradients (mcutrain.analysis.gradient), comparable within one analysis only."""
IMPORTANCE_DIGITS = 4
"""Kept of a measured importance: more would say nothing, and a scheme is a file to read."""
MOST_SAMPLES = 4096
"""Most samples of kernels in a file that is read."""
RATES = ("rate", "disturbing_rate")
MODULE_RATE = "module_rate"
MAY_FALL = ("learnable", JOINT)
"""Measures that are computed, not tried, and tell where more of the same does harm."""


@dataclass(frozen=True)
class Gains:
    """What training adds to one measure; more is better.

    bias: [k] is gained by the last k biases over the head alone, k = 0 … layers, [0] is 0. weights:
    layer → share → gained by that share of its weights over the biases of it and all layers behind
    it, or over more biases. modules: name → how many of its hidden channels, 0 if it has none →
    what the module gains. Training measures that over the biases of the layer that it stands at,
    gradients over all.
    """

    bias: tuple[float, ...]
    weights: Mapping[int, Mapping[float, float]]
    modules: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        frozen = {i: MappingProxyType(dict(g)) for i, g in self.weights.items()}
        object.__setattr__(self, "weights", MappingProxyType(frozen))
        own = {name: MappingProxyType(dict(g)) for name, g in self.modules.items()}
        object.__setattr__(self, "modules", MappingProxyType(own))

    def smoothed(self) -> Gains:
        """The nearest gains that never fall with depth or share, in the sum of squares.

        A larger share can be trained, or left as it is. So a measured loss from one share to the
        next, or from one bias to the next, is noise or comes from a step too large. Selecting from
        the raw gains would collect the lucky ones. Isotonic regression (Barlow et al., 1972).
        """
        bias = _not_falling(np.array(self.bias))
        weights = {i: _smoothed(by) for i, by in self.weights.items()}
        modules = {name: _smoothed(by) for name, by in self.modules.items()}
        return Gains(tuple((bias - bias[0]).tolist()), weights, modules)


def is_joint(reading: str) -> bool:
    """Return whether a measure, or a reading of it, is of schemes as a whole."""
    return reading.split(",")[0] == JOINT


def _smoothed(by: Mapping[N, float]) -> dict[N, float]:
    """Gains that do not fall with the share, or with channels."""
    sizes = sorted(by)
    fitted = _not_falling(np.array([by[size] for size in sizes]))
    return dict(zip(sizes, fitted.tolist(), strict=True))


def _not_falling(values: Array) -> Array:
    from scipy.optimize import isotonic_regression  # slow to import

    fitted: Array = np.asarray(isotonic_regression(values).x)
    return fitted


@dataclass(frozen=True, repr=False)
class Contributions(Shown):
    """An analysis of one model on one data set.

    model_digest: of the graph without its head, so that an analysis is not used for another model.
    layers: names, in execution order, the head not counted. gains: by measure; the first one is
    what selection maximises unless told otherwise. head: measures with the head alone, the loss
    negative, so that head and gain add up.
    residual_factor: residual bits → factor on the gains of weights, relative to the
        usual bits.
    channels: layer → importance of each input channel by gradient; empty if not measured.
    kernels: of the measure joint, which cannot be had without. module_rate: of a scheme, at which
    gains of modules are measured.
    settings: how it was made, for the report.
    """

    model: str
    model_digest: str
    classes: int
    method: str
    layers: tuple[str, ...]
    head: Mapping[str, float]
    gains: Mapping[str, Gains]
    residual_factor: Mapping[int, float] = field(default_factory=lambda: {USUAL_BITS: 1.0})
    channels: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    kernels: Kernels | None = None
    module_rate: float | None = None

    def gain(self, measure: str | None = None) -> Gains:
        """The gains by one measure. Raises AnalysisError if it was not measured."""
        name = measure or next(iter(self.gains))
        if name not in self.gains:
            raise AnalysisError(
                f"the analysis of {self.model!r} has no {name!r}; it has {', '.join(self.gains)}"
            )
        return self.gains[name]

    def smoothed(self) -> Contributions:
        """Return the contributions with smoothed gains, as selection takes them."""
        gains = {n: g if n in MAY_FALL else g.smoothed() for n, g in self.gains.items()}
        return replace(self, gains=gains)

    def summary(self) -> str:
        """Return a line that describes it."""
        return (
            f"{self.model}, {self.classes} classes, {len(self.layers)} layers, by {self.method}: "
            f"{', '.join(self.gains)}"
        )

    def records(self) -> list[Record]:
        """A row for each layer: what a share of its weights gains, and biases from it on."""
        found = self.gain()
        shares = sorted({share for by in found.weights.values() for share in by})
        return [
            {
                "layer": i,
                "name": name,
                **{f"{share:g}": found.weights.get(i, {}).get(share) for share in shares},
                "biases": found.bias[len(self.layers) - i],
            }
            for i, name in enumerate(self.layers)
        ]

    def to_dict(self) -> Record:
        """Return what read_contributions reads, as values."""
        return {"format": FORMAT, **asdict_mappings(self)}

    def to_json(self) -> str:
        """As read_contributions takes it."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def write(self, path: str | Path) -> Path:
        """Write the file that `mcutrain select --analysis` takes, as a whole or not at all."""
        file = Path(path)
        try:
            write_whole(file, self.to_json().encode())
        except OSError as error:
            raise AnalysisError(f"cannot write {file}: {unwritable(file, error)}") from error
        return file


def asdict_mappings(value: Contributions) -> dict[str, Any]:
    """Plain dictionaries, also of frozen mappings."""
    gains = {
        name: {
            "bias": list(g.bias),
            "weights": {str(i): {str(s): v for s, v in w.items()} for i, w in g.weights.items()},
            **_modules_as_values(g),
        }
        for name, g in value.gains.items()
    }
    return {
        "model": value.model,
        "model_digest": value.model_digest,
        "classes": value.classes,
        "method": value.method,
        "layers": list(value.layers),
        "head": dict(value.head),
        "gains": gains,
        "residual_factor": {str(k): v for k, v in value.residual_factor.items()},
        "channels": {str(k): list(v) for k, v in value.channels.items()},
        "settings": dict(value.settings),
        **({"kernels": value.kernels.to_dict()} if value.kernels is not None else {}),
        **({MODULE_RATE: value.module_rate} if _has_modules(value.gains) else {}),
    }


def _has_modules(gains: Mapping[str, Gains]) -> bool:
    return any(g.modules for g in gains.values())


def _modules_as_values(gains: Gains) -> dict[str, Any]:
    """Nothing where there are none."""
    found = {n: {str(c): v for c, v in m.items()} for n, m in gains.modules.items()}
    return {"modules": found} if found else {}


def digest(graph: Graph) -> str:
    """16 hexadecimal digits of what an analysis is valid for: the network up to its head."""
    head = find_head(graph)
    nodes = graph.nodes[: [n.name for n in graph.nodes].index(head.name)]
    found = hashlib.sha256()
    for node in nodes:
        found.update(repr(node).encode())
    for name in sorted({n for node in nodes for n in node.inputs}):
        tensor = graph.tensors[name]
        found.update(repr(tensor.type).encode())
        if tensor.data is not None:
            found.update(np.ascontiguousarray(tensor.data).tobytes())
    return found.hexdigest()[:16]


def read_contributions(path: str | Path, graph: Graph | None = None) -> Contributions:
    """An analysis from its JSON file. Raises AnalysisError if it is none.

    graph: the model that it is to be used for; AnalysisError if it was made for another one.
    """
    path = Path(path)
    try:
        values = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise AnalysisError(f"cannot read the analysis {path}: {reason(error)}") from error
    found = contributions_of(values, str(path))
    if graph is not None:
        check_model(found, graph, str(path))
    return found


def contributions_of(values: Any, name: str) -> Contributions:
    """An analysis from what to_dict gave. name: of the file. Raises AnalysisError."""
    try:
        return _parsed(values)
    except _WrongError as error:
        raise AnalysisError(f"{name} is no analysis of `mcutrain analyze`: {error}") from error


def check_model(found: Contributions, graph: Graph, name: str = "this") -> None:
    """Raises AnalysisError if the analysis was made of another model."""
    if digest(graph) != found.model_digest:
        raise AnalysisError(
            f"{name} is an analysis of another model, {found.model!r}: the network before the "
            f"head of {graph.name!r} differs; run `mcutrain analyze` for it"
        )


class _WrongError(Exception):
    """What is wrong with a file's content, as the end of a sentence."""


def _parsed(values: Any) -> Contributions:
    """The analysis, every value checked."""
    table = _table(values, "the file")
    if table.get("format") != FORMAT:
        raise _WrongError(f"its format is {table.get('format')!r:.40}, this version reads {FORMAT}")
    layers = tuple(_text(name, "a layer") for name in _list(table.get("layers"), "layers"))
    count = len(layers)
    gains = {
        _one_of(name, MEASURES, "gains"): _gains(value, count, name)
        for name, value in _table(table.get("gains"), "gains").items()
    }
    factors = _mapping(
        table.get("residual_factor"), "residual_factor", _residual_bits, _not_negative
    )
    if not gains or not factors:
        raise _WrongError("gains or residual_factor is empty")
    kernels = _kernels(table["kernels"], count) if "kernels" in table else None
    if JOINT in gains and kernels is None:
        raise _WrongError(f"it has gains of {JOINT!r}, but no kernels")
    if kernels is not None and JOINT in gains and not _has_all(kernels, gains[JOINT]):
        raise _WrongError(f"kernels are of other weights or modules than the gains of {JOINT!r}")
    return Contributions(
        model=_text(table.get("model"), "model"),
        model_digest=_text(table.get("model_digest"), "model_digest"),
        classes=_integer(table.get("classes"), 2, 2**31, "classes"),
        method=_one_of(table.get("method"), METHODS, "method"),
        layers=layers,
        head=_mapping(table.get("head"), "head", lambda k: _one_of(k, MEASURES, "head"), _number),
        gains=gains,
        residual_factor=factors,
        channels=_mapping(
            table.get("channels"), "channels", lambda k: _index(k, count), _importance
        ),
        settings=_table(table.get("settings"), "settings"),
        kernels=kernels,
        module_rate=_module_rate(table) if _has_modules(gains) else None,
    )


def _module_rate(table: Mapping[str, Any]) -> float | None:
    """Read the rate of modules; 1 if the file does not say it, because there was no other."""
    rate = table.get(MODULE_RATE, 1.0)
    if rate is None:
        return None
    low, high = RATE_FACTORS
    found = _number(rate, MODULE_RATE)
    if not low <= found <= high:
        raise _WrongError(f"{MODULE_RATE} is {found:g}, not {low:g} to {high:g}")
    return found


def _has_all(kernels: Kernels, gains: Gains) -> bool:
    """Return whether all that has a gain has inner products."""
    weights = all(by.keys() <= kernels.weights.get(i, {}).keys() for i, by in gains.weights.items())
    modules = all(by.keys() <= kernels.modules.get(n, {}).keys() for n, by in gains.modules.items())
    return weights and modules


def _kernels(value: Any, count: int) -> Kernels:
    table = _table(value, "kernels")
    if "file" in table:
        raise _WrongError(
            "it is what --json printed, without the kernels; take the file that -o wrote"
        )
    samples = _integer(table.get("samples"), 1, MOST_SAMPLES + 1, "samples of kernels")

    def products(text: Any, what: str) -> Array:
        try:
            return products_of(_text(text, what), samples)
        except ValueError as error:
            raise _WrongError(f"{what} are no inner products of {samples} samples") from error

    def each(name: str, key: Callable[[str], K], size: Callable[[str], N]) -> Any:
        return _mapping(
            table.get(name, {}),
            f"{name} of kernels",
            key,
            lambda by, what: _mapping(by, what, size, products),
        )

    biases = _list(table.get("biases"), "biases of kernels")
    if len(biases) != count:
        raise _WrongError(f"kernels have {len(biases)} biases for {count} layers")
    rates = [_not_negative(table.get(name), f"{name} of kernels") for name in RATES]
    if 0 in rates:
        raise _WrongError("a rate of kernels is 0")
    return Kernels(
        rates[0],
        rates[1],
        _integer(table.get("steps"), 1, 2**53, "steps of kernels"),
        tuple(products(text, "biases of kernels") for text in biases),
        each("weights", lambda key: _index(key, count), _share),
        each("modules", lambda key: key, _channels),
    )


def _gains(value: Any, count: int, name: str) -> Gains:
    table = _table(value, name)
    bias = tuple(_number(v, f"bias of {name}") for v in _list(table.get("bias"), f"bias of {name}"))
    if len(bias) != count + 1:
        raise _WrongError(f"{name} has {len(bias)} gains of biases for {count} layers")
    weights = _mapping(
        table.get("weights"),
        f"weights of {name}",
        lambda key: _index(key, count),
        lambda shares, what: _mapping(shares, what, _share, _number),
    )
    modules = _mapping(
        table.get("modules", {}),
        f"modules of {name}",
        lambda key: key,
        lambda counts, what: _mapping(counts, what, _channels, _number),
    )
    return Gains(bias, weights, modules)


K = TypeVar("K")


def _mapping(
    value: Any, what: str, key: Callable[[str], K], entry: Callable[[Any, str], T]
) -> dict[K, T]:
    return {key(k): entry(v, what) for k, v in _table(value, what).items()}


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError(f"{what} is no table")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _WrongError(f"{what} is no list")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise _WrongError(f"{what} is no text")
    return value


def _one_of(value: Any, known: tuple[str, ...], what: str) -> str:
    if value not in known:
        raise _WrongError(f"{what} has {value!r:.40}, known are {', '.join(known)}")
    return str(value)


def _number(value: Any, what: str) -> float:
    try:
        if type(value) in (int, float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise _WrongError(f"{what} has {value!r:.40}, which is no number")


def _not_negative(value: Any, what: str) -> float:
    number = _number(value, what)
    if number < 0:
        raise _WrongError(f"{what} has {number}, which is negative")
    return number


def _importance(value: Any, what: str) -> tuple[float, ...]:
    return tuple(_not_negative(v, what) for v in _list(value, what))


def _integer(value: Any, low: int, high: int, what: str) -> int:
    if type(value) is not int or not low <= value < high:
        raise _WrongError(f"{what} is {value!r:.40}, not a whole number from {low} on")
    return value


def _index(key: str, count: int) -> int:
    """A layer's index as JSON has keys."""
    if key not in map(str, range(count)):
        raise _WrongError(f"{key!r:.40} is none of the {count} layers")
    return int(key)


def _channels(key: str) -> int:
    """Return how many hidden channels, as JSON has keys."""
    if not (key.isascii() and key.isdecimal() and len(key) <= 6):
        raise _WrongError(f"{key!r:.40} is no number of channels")
    return int(key)


def _share(key: str) -> float:
    if key not in map(str, SHARES):
        raise _WrongError(f"{key!r:.40} is none of the shares {SHARES}")
    return float(key)


def _residual_bits(key: str) -> int:
    if key not in map(str, RESIDUAL_BITS):
        raise _WrongError(f"{key!r:.40} are no residual bits: {RESIDUAL_BITS}")
    return int(key)


def with_importance(scheme: UpdateScheme, analysis: Contributions) -> UpdateScheme:
    """The scheme with the channels' importance by gradient, of the layers it trains in part."""
    by_name = {name: i for i, name in enumerate(analysis.layers)}
    found: dict[str, tuple[float, ...]] = {}
    for key, share in scheme.weights.items():
        measured = analysis.channels.get(int(key) if key.isdecimal() else by_name.get(key, -1))
        if 0 < share < 1 and measured is not None:
            found[key] = tuple(float(f"{v:.{IMPORTANCE_DIGITS}g}") for v in measured)
    return replace(scheme, importance=found)
