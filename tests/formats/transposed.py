"""Shapes and orders of their axes, and the image whose numbers are seen under such a shape."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st


@st.composite
def reorderings(draw):
    """An image (c, h, w), a shape of as many numbers with 2 to 5 axes, an order of these axes."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=2, max_size=5)))
    perm = draw(st.sampled_from(list(itertools.permutations(range(len(shape))))))
    return draw(st.sampled_from(images(math.prod(shape)))), shape, perm


def images(count):
    """All (c, h, w) of so many numbers."""
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    return [(c, h, count // (c * h)) for c in divisors for h in divisors if count % (c * h) == 0]


def grow(model, x, shape, perm):
    """Add to a model: see x under the shape, move its axes, lay it flat."""
    x = model.op("Reshape", x, model.constant(np.array(shape, np.int64)))
    x = model.op("Transpose", x, perm=perm)
    return model.op("Reshape", x, model.constant(np.array([1, -1], np.int64)))
