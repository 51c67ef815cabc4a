"""Do the samples' values lie where the model's input can hold them? What does not is clipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import Samples, Split
from mcutrain.data.layout import InputOrder
from mcutrain.data.quantize import Normalization
from mcutrain.errors import DataError

LOOKED_AT = 1000
"""Samples of each part, evenly spread."""
TOLD_SHARE = 0.001
"""A smaller clipped share is not worth a word: ranges are chosen so, to the last outlier."""
WRONG_SHARE, WRONG_DB = 0.25, 6.0
"""Refused where so many values are clipped, and what is cut off has so much of their variance (a
quarter): 0…16 for an input of 0…1 has 47 % and -1 dB, -1…1 has 50 % and 3 dB, but a normal
distribution of deviation 1 for -1…1 has 32 % and 8 dB, for -2…2 5 % and 19 dB."""
FEW_STEPS = 8
"""Values within so few steps of the input cannot be told apart well."""
NEGATIVE_SHARE = 0.25
"""Said where so much of an input's range is below 0 and no value is: pixels / 255 for a model that
learnt from normalized ones. An input with zero point 0 may be so without a negative value."""


@dataclass(frozen=True)
class ModelInput:
    """What data sets need to know of a model's input: shape without the batch, quantization.

    order: in which users have samples; None: as the input has them. ids: how many token ids there
    are, of a model that takes these; 0 of others.
    """

    shape: tuple[int, ...]
    scale: float
    zero_point: int
    order: InputOrder | None = None
    ids: int = 0

    @property
    def known_order(self) -> InputOrder:
        """Order of the input; the model's own where none is said."""
        return replace(self.order or InputOrder.own(self.shape), ids=self.ids)

    def with_frontend(self, text: str) -> ModelInput:
        """Return it with the front end that a text or file names; see `InputOrder`."""
        return replace(self, order=self.known_order.with_frontend(text)) if text else self

    @property
    def low(self) -> float:
        """The smallest real number that has a code."""
        return (-128 - self.zero_point) * self.scale

    @property
    def high(self) -> float:
        """The largest one."""
        return (127 - self.zero_point) * self.scale


@dataclass(frozen=True)
class Clipping:
    """Real values against an input's range.

    low, high: of the values. share: of those that are more than a step outside. kept_db: variance
    of all by the mean square of what is cut off.
    """

    low: float
    high: float
    share: float
    kept_db: float

    @property
    def is_wrong(self) -> bool:
        """Whether the values cannot be what the model was trained on."""
        return self.share >= WRONG_SHARE and self.kept_db < WRONG_DB

    @staticmethod
    def of(x: Samples, model: ModelInput) -> Clipping:
        """Measure how the model's input clips finite real values."""
        real = x.astype(np.float64)
        limited = np.clip(real, model.low - model.scale, model.high + model.scale)
        outside = float((limited != real).mean())
        lost = float(np.square(real - np.clip(real, model.low, model.high)).mean())
        kept_db = np.inf if lost == 0 else 10 * np.log10(max(float(real.var()), 1e-300) / lost)
        return Clipping(float(real.min()), float(real.max()), outside, float(kept_db))


def input_notes(
    split: Split, model: ModelInput, normalization: Normalization | Literal["auto"] = "auto"
) -> tuple[str, ...]:
    """Return what to say about values that the model's input clips, or hardly tells apart.

    Raises DataError where they cannot be what the model was trained on.
    """
    notes = []
    for name, part in (("training", split.train), ("test", split.test)):
        real = _real(part.x, normalization)
        if real is not None:
            remedy = SCALE_THEM if normalization == "auto" else OTHER_MEAN
            notes += check_values(real, model, f"the {name} samples", remedy)
    return tuple(notes)


SCALE_THEM = (
    "scale them as the model's training did, or save pixels as uint8 and give --mean and --std"
)
OTHER_MEAN = "give the --mean and --std that the model was trained with"


def check_values(x: Samples, model: ModelInput, what: str, remedy: str) -> list[str]:
    """Check real values. what: whose, plural; remedy: what to do, an imperative."""
    clipping = Clipping.of(x, model)
    ranges = (
        f"{what} go from {clipping.low:.4g} to {clipping.high:.4g}, and the model's input from "
        f"{model.low:.4g} to {model.high:.4g}"
    )
    if clipping.share >= TOLD_SHARE:
        share = f"{clipping.share:.0%}" if clipping.share >= 0.1 else f"{clipping.share:.1%}"
        said = f"{ranges}: {share.replace('%', ' %')} of the values are clipped"
        if clipping.is_wrong:
            raise DataError(f"{said}; {remedy}")
        return [f"{said}; if that is more than outliers, {remedy}"]
    if len(x) > 1 and clipping.high - clipping.low < FEW_STEPS * model.scale:
        steps = int((clipping.high - clipping.low) / model.scale) + 1
        return [f"{ranges}, so they take {steps} of its 256 values; {remedy}"]
    below = -model.low >= NEGATIVE_SHARE * (model.high - model.low) and model.zero_point != 0
    if len(x) > 1 and clipping.low >= 0 and below:
        return [f"{ranges}: no value is below 0, as some were in the model's training; {remedy}"]
    return []


def _real(x: Samples, normalization: Normalization | Literal["auto"]) -> Samples | None:
    """Some samples as real numbers; None where every value has its code."""
    index = np.unique(np.linspace(0, len(x) - 1, min(len(x), LOOKED_AT)).astype(np.int64))
    if x.dtype == np.float32:
        return x[index]
    if x.dtype == np.uint8 and normalization != "auto":
        mean, std = (np.array(v) for v in (normalization.mean, normalization.std))
        if len(mean) in (1, x.shape[-1]):
            real: Samples = (x[index] / 255 - mean) / std
            return real
    return None
