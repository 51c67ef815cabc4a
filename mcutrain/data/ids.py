"""Samples that are token ids, which choose rows of a model's table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import Samples
from mcutrain.errors import DataError


def as_ids(x: Samples, ids: int, key: str = "x") -> npt.NDArray[np.int16]:
    """Token ids (n, …) as int16. x: integers, or real numbers that are whole.

    ids: how many there are. Raises DataError for one that has no row.
    """
    if x.dtype.kind not in "iuf" or x.ndim < 2 or x.size == 0:
        raise DataError(
            f"{key} is {x.dtype} of shape {x.shape}, but the model takes token ids: save them as "
            "integers (n, tokens), as the tokenizer of its training gives them"
        )
    is_wrong = ~((x >= 0) & (x < ids))
    if x.dtype.kind == "f":
        is_wrong |= x != np.rint(x)
    if is_wrong.any():
        place = np.argwhere(is_wrong)[0]
        value = x[tuple(place)]
        raise DataError(
            f"{key} holds {value:g} (sample {place[0]}, token {place[1]}), but the model has rows "
            f"for the token ids 0 to {ids - 1}: make ids with the tokenizer of its training, and "
            "give tokens that it does not know its id for these"
        )
    return x.astype(np.int16)
