"""UpdateScheme: which weights and biases are trained; as TOML, and as a short form."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.files import is_file
from mcutrain_host.reading import read_text
from mcutrain_host.text import reason

from mcutrain.arguments import PathLike, checked
from mcutrain.errors import SchemeError, did_you_mean
from mcutrain.sparse.module_names import kind_hint
from mcutrain.update_rules import SGD, rule_of

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

SHORT_FORMS = (
    "head, bias:K, linear-bias:K, norm:K, last:K, full, modules, LAYER:SHARE joined by commas, "
    "or a .toml file"
)
WORDS = ("head", "full", "modules", "last:6", "bias:6", "linear-bias:6", "norm:6")
"""Short forms that a misspelt one may be like."""
DEPTHS = ("last", "bias", "linear-bias", "norm")
"""Short forms that count layers."""
RESIDUAL_BITS = (0, 2, 4, 8)
BIAS_BITS = (32, 16)
USUAL_BITS, USUAL_HEAD_BITS, USUAL_BIAS_BITS = 2, 4, 16
"""Residual bits of layers and of the head, and bits of biases, where a scheme says none.

More of them gain 0.07 points in the mean of six data sets (docs/measurements/accuracy.md,
"Accuracy by bytes of state"); without residual bits more than a point is lost."""
NEW_HEAD_RATE = 8.0
"""Usual factor on the learning rate of a new head.

It knows nothing, the layers before it do, so it has further to go. From 4 to 16 accuracy changes by
about a point (docs/measurements/rates.md, "The rate of a new head")."""
RATE_FACTORS = (1e-6, 1e6)
"""The least and the largest factor on the learning rate of some of what is trained."""
TABLES = ("weights", "importance")
NUMBERS = ("bias_depth", "norm_depth", "residual_bits", "head_residual_bits", "bias_bits")
FLAGS = ("qas", "modules", "linear_biases")
FACTORS = ("head_rate", "module_rate")
KEYS = {"name", "model", "update_rule", *FACTORS, *NUMBERS, *FLAGS, *TABLES}


@dataclass(frozen=True)
class UpdateScheme:
    """What one training step updates. The head (weight and bias) is always trained.

    bias_depth: the last so many biases, without the head's; None is all.
    norm_depth: gamma and beta of the last so many normalizations; None is of those behind the first
        layer whose bias is trained, and of none with linear_biases.
    linear_biases: train only biases of linear layers, see mcutrain.sparse.layers.is_linear.
    weights: layer → share of its input channels. A layer is its index from 0 or its name; a share
        of 0 is not trained.
    depth_weights: also all weights of the last so many layers; None is all.
    residual_bits: fraction bits kept beside each trained int8 weight.
    layer_residual_bits: layer, as in weights → its residual bits, where they differ.
    bias_bits: bits of each trained bias but the head's: 32, or 16 for its difference to the
        model's.
    qas: quantization-aware scaling (the head always has it).
    importance: layer → one number per input channel, in the model's own order. A share takes the
        channels with the largest ones; without it, those of the largest weight norm.
    modules: also what is trained of the model's modules (see mcutrain.sparse.modules).
    module_channels: name of a module → how many of its hidden channels, 0 of all; empty is all
        modules. Others are left out where they have learnt nothing.
    module_rate: factor on the learning rate of modules; None is what is usual for their kind. A
        layer's weight that is trained for itself keeps its own.
    head_rate: factor on the learning rate of the head; None is NEW_HEAD_RATE for a new head and 1
        for the model's own.
    update_rule: how gradients become steps, by its name in mcutrain.update_rules.
    """

    name: str = "head"
    bias_depth: int | None = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    depth_weights: int | None = 0
    residual_bits: int = USUAL_BITS
    head_residual_bits: int = USUAL_HEAD_BITS
    qas: bool = True
    importance: Mapping[str, Sequence[float]] = field(default_factory=dict)
    bias_bits: int = USUAL_BIAS_BITS
    layer_residual_bits: Mapping[str, int] = field(default_factory=dict)
    modules: bool = False
    module_channels: Mapping[str, int] = field(default_factory=dict)
    module_rate: float | None = None
    head_rate: float | None = None
    linear_biases: bool = False
    update_rule: str = SGD
    norm_depth: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        importance = {layer: tuple(map(float, v)) for layer, v in self.importance.items()}
        object.__setattr__(self, "importance", MappingProxyType(importance))
        channels = dict(self.module_channels)
        object.__setattr__(self, "module_channels", MappingProxyType(channels))
        if min(channels.values(), default=0) < 0 or (channels and not self.modules):
            raise SchemeError(
                f"scheme {self.name!r}: modules have 0 channels or more and are trained: {channels}"
            )
        rule_of(self.update_rule)  # or a sentence
        self._check_rate("the head", self.head_rate)
        self._check_rate("modules", self.module_rate)
        own_bits = dict(self.layer_residual_bits)
        object.__setattr__(self, "layer_residual_bits", MappingProxyType(own_bits))
        for layer, share in self.weights.items():
            if not 0 <= share <= 1:
                raise SchemeError(
                    f"scheme {self.name!r}: the share {share} of layer {layer} is not in 0 to 1"
                )
        for layer, values in importance.items():
            if not all(math.isfinite(v) and v >= 0 for v in values):
                raise SchemeError(
                    f"scheme {self.name!r}: an importance of layer {layer} is negative or infinite"
                )
        for layer in own_bits.keys() - self.weights.keys():
            raise SchemeError(
                f"scheme {self.name!r} gives layer {layer} residual bits, but no share"
            )
        for bits in (self.residual_bits, self.head_residual_bits, *own_bits.values()):
            if bits not in RESIDUAL_BITS:
                raise SchemeError(
                    f"scheme {self.name!r}: {bits} residual bits; use one of {RESIDUAL_BITS}"
                )
        if self.bias_bits not in BIAS_BITS:
            raise SchemeError(
                f"scheme {self.name!r}: biases of {self.bias_bits} bits; use one of {BIAS_BITS}"
            )

    def with_usual_rate(self, is_new_head: bool) -> UpdateScheme:
        """The scheme with the usual factor for its head, if it says none."""
        if self.head_rate is not None:
            return self
        return replace(self, head_rate=usual_head_rate(is_new_head))

    def _check_rate(self, of: str, rate: float | None) -> None:
        low, high = RATE_FACTORS
        if rate is not None and not low <= rate <= high:
            raise SchemeError(
                f"scheme {self.name!r}: the rate of {of}, {rate:g}, is not in {low:g} to {high:g}"
            )

    def to_toml(self) -> str:
        """The scheme as a TOML file that parse_scheme reads; depth_weights must be resolved."""
        lines = [f"name = {_quoted(self.name)}"]
        if self.bias_depth is not None:
            lines.append(f"bias_depth = {self.bias_depth}")
        lines += [
            *([f"norm_depth = {self.norm_depth}"] if self.norm_depth is not None else []),
            *(["linear_biases = true"] if self.linear_biases else []),
            f"residual_bits = {self.residual_bits}",
            f"head_residual_bits = {self.head_residual_bits}",
            f"bias_bits = {self.bias_bits}",
            f"qas = {str(self.qas).lower()}",
            *([f'update_rule = "{self.update_rule}"'] if self.update_rule != SGD else []),
            *(["modules = true"] if self.modules and not self.module_channels else []),
            *([f"module_rate = {self.module_rate}"] if self.module_rate is not None else []),
            *([f"head_rate = {self.head_rate}"] if self.head_rate is not None else []),
            "",
            "[weights]  # layer = share of its input channels",
        ]
        lines += [f"{_quoted(k)} = {self._weight_text(k)}" for k in self.weights]
        if self.module_channels:
            lines += ["", "[modules]  # module = its hidden channels, true = it has none, or all"]
        lines += [f"{_quoted(k)} = {n or 'true'}" for k, n in self.module_channels.items()]
        if self.importance:
            lines += ["", "[importance]  # layer = of each of its input channels"]
        lines += [f"{_quoted(k)} = {list(v)}" for k, v in self.importance.items()]
        return "\n".join(lines) + "\n"

    def _weight_text(self, layer: str) -> str:
        share, bits = self.weights[layer], self.layer_residual_bits.get(layer)
        return f"{share}" if bits is None else f"{{ share = {share}, residual_bits = {bits} }}"


def usual_head_rate(is_new: bool) -> float:
    """The factor on a head's learning rate where a scheme says none."""
    return NEW_HEAD_RATE if is_new else 1.0


@checked
def parse_scheme(text: PathLike) -> UpdateScheme:
    """Read a scheme: a short form, the name of a shipped scheme, or the path of a TOML file.

    Short forms are head, bias:K, linear-bias:K, norm:K, last:K, full, modules, and
    LAYER:SHARE,… Raises SchemeError.

    >>> parse_scheme("22:0.5,bias:4")
    """
    text = str(text)
    if text.endswith(".toml") or is_file(Path(text)):
        return _read_toml(Path(text))
    shipped = Path(_schemes_folder()) / f"{text}.toml"
    if is_file(shipped):
        return _read_toml(shipped)
    return _parse_short(text)


def as_scheme(given: UpdateScheme | PathLike) -> UpdateScheme:
    """A scheme as it is, or what parse_scheme reads. Raises SchemeError."""
    return given if isinstance(given, UpdateScheme) else parse_scheme(given)


def shipped_schemes() -> tuple[str, ...]:
    """The names of the schemes that come with mcutrain."""
    return tuple(sorted(p.stem for p in Path(_schemes_folder()).glob("*.toml")))


def schemes_of(network: str) -> tuple[UpdateScheme, ...]:
    """The shipped schemes that were made for a network, by its name; also of mcunet-5fps.int8."""
    found = []
    for name in shipped_schemes():
        path = Path(_schemes_folder()) / f"{name}.toml"
        made_for = tomllib.loads(path.read_text(encoding="utf-8"))["model"]
        if f"{network}.".startswith(f"{made_for}."):
            found.append(_read_toml(path))
    return tuple(found)


def _parse_short(text: str) -> UpdateScheme:
    given: dict[str, str] = {}
    weights: dict[str, float] = {}
    linear_biases = False
    for part in text.split(","):
        _check_no_module(text, part)
        if part in ("head", "modules"):
            continue
        if part == "full":
            name, value = "last", part
        elif match := re.fullmatch(r"(linear-bias|bias|norm|last):(\d{1,4})", part):
            name, value = match.groups()
            linear_biases |= name == "linear-bias"
            name = name.removeprefix("linear-")
        elif match := re.fullmatch(r"(.+):(\d*\.?\d+)", part):
            name, value = match.groups()
            _check_new(text, name, weights)
            _check_not_misspelt(name, value)
            weights[name] = float(value)
            continue
        else:
            raise SchemeError(
                f"{text!r} is not an update scheme; give {SHORT_FORMS}, "
                f"or one of {', '.join(shipped_schemes()) or 'none shipped'}"
                f"{did_you_mean(text, (*WORDS, *shipped_schemes()))}"
            )
        _check_new(text, name, given)
        given[name] = value
    depth = _depth(given.get("last", "0"))
    biases = _depth(given["bias"]) if "bias" in given else depth
    has_modules = "modules" in text.split(",")
    return UpdateScheme(
        text,
        biases,
        weights,
        depth,
        modules=has_modules,
        linear_biases=linear_biases,
        norm_depth=int(given["norm"]) if "norm" in given else None,
    )


def _check_no_module(text: str, part: str) -> None:
    """A layer may be called as a kind of module is: then it has a share."""
    word, _, number = part.partition(":")
    hint = kind_hint(word)
    is_share = re.fullmatch(r"\d*\.?\d+", number) and float(number) <= 1
    if hint and not is_share:
        raise SchemeError(f"{text!r} is not an update scheme{hint}")


def _check_not_misspelt(name: str, number: str) -> None:
    """A short form counts from 1, the share of a layer ends there."""
    meant = did_you_mean(f"{name}:{number}", [f"{word}:{number}" for word in DEPTHS])
    if float(number) > 1 and meant and did_you_mean(name, DEPTHS):
        raise SchemeError(f"{name}:{number} is no short form, and no share of a layer{meant}")


def _check_new(text: str, name: str, given: Mapping[str, object]) -> None:
    if name in given:
        what = "last:K or full" if name == "last" else "bias:K" if name == "bias" else name
        raise SchemeError(f"the scheme {text!r} gives {what} twice: keep one of them")


def _depth(text: str) -> int | None:
    return None if text == "full" else int(text)


def _read_toml(path: Path) -> UpdateScheme:
    try:
        values: dict[str, Any] = tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise SchemeError(f"cannot read the scheme {path}: {reason(error)}") from error
    unknown = sorted(values.keys() - KEYS)
    if unknown:
        raise SchemeError(f"scheme {path}: unknown keys {unknown}; known are {sorted(KEYS)}")
    values.pop("model", None)
    values.setdefault("name", path.stem)
    for table, content in zip(TABLES, ("share", "a list of numbers"), strict=True):
        if not isinstance(values.setdefault(table, {}), dict):
            raise SchemeError(f"scheme {path}: [{table}] must be a table of layer = {content}")
    values["layer_residual_bits"] = _taken_apart(path, values["weights"])
    values |= _modules(path, values.get("modules", False))
    _check_types(path, values)
    values |= _factors(path, values)
    values["weights"] = {str(k): float(v) for k, v in values["weights"].items()}
    return UpdateScheme(**values)


def _taken_apart(path: Path, weights: dict[str, Any]) -> dict[str, int]:
    """Residual bits by layer; where a layer has them only its share is left in `weights`."""
    found: dict[str, int] = {}
    for layer, value in weights.items():
        if not isinstance(value, dict) or "share" not in value:
            continue
        unknown = sorted(value.keys() - {"share", "residual_bits"})
        if unknown:
            raise SchemeError(f"scheme {path}: unknown keys {unknown} of layer {layer}")
        weights[layer] = value["share"]
        bits = value.get("residual_bits")
        if bits is not None and type(bits) is not int:
            raise SchemeError(f"scheme {path}: the residual bits {bits!r} of layer {layer}")
        found |= {} if bits is None else {str(layer): bits}
    return found


def _modules(path: Path, given: Any) -> dict[str, Any]:
    """Return what `modules` says: all or none, or a table of some."""
    if not isinstance(given, dict):
        return {"modules": given}
    for name, count in given.items():
        if count is not True and (type(count) is not int or count < 1):
            raise SchemeError(
                f"scheme {path}: module {name!r} has {count!r}; give how many of its hidden "
                "channels it keeps, from 1, or true"
            )
    counts = {name: 0 if count is True else count for name, count in given.items()}
    return {"modules": bool(given), "module_channels": counts}


def _factors(path: Path, values: Mapping[str, Any]) -> dict[str, float]:
    given = {key: values[key] for key in FACTORS if key in values}
    for key, factor in given.items():
        if not _is_number(factor):
            raise SchemeError(f"scheme {path}: {key} = {factor!r} is not a number")
    return {key: float(factor) for key, factor in given.items()}


def _check_types(path: Path, values: Mapping[str, Any]) -> None:
    expected: dict[str, type] = {"name": str, "update_rule": str, **dict.fromkeys(FLAGS, bool)}
    for key in NUMBERS:
        expected[key] = int
    for key, kind in expected.items():
        value: Any = values.get(key)
        if value is None:
            continue
        negative = isinstance(value, int) and value < 0
        if type(value) is not kind or negative:
            raise SchemeError(f"scheme {path}: {key} = {value!r} is not a {kind.__name__}")
    for key, share in values["weights"].items():
        if not _is_number(share):
            raise SchemeError(f"scheme {path}: the share {share!r} of layer {key} is not a number")
    for key, importance in values["importance"].items():
        if not isinstance(importance, list) or not all(map(_is_number, importance)):
            raise SchemeError(f"scheme {path}: the importance of layer {key} is no list of numbers")


def _is_number(value: Any) -> bool:
    """Return whether a TOML value is a number: no boolean, and not larger than any float."""
    return type(value) is float or (type(value) is int and abs(value) < 2**1023)


def _schemes_folder() -> str:
    import mcutrain_schemes

    return str(Path(mcutrain_schemes.__file__).parent)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
