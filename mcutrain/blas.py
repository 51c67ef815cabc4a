"""Threads of numpy's matrix products, of which our own processes take one.

OpenBLAS shares even small products among a thread for each processor, and these threads spin while
they wait. Where another program wants the processors, too, each product takes many times as long.
What mcutrain does at length are other things than large products.

Numpy reads this once, when it is imported.
"""

from __future__ import annotations

import os

LIMITS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Environment variables that limit the threads of OpenBLAS (numpy's and scipy's) and others."""
ASKED = (*LIMITS, "OMP_NUM_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS")
"""Environment variables by which a user says how many threads there are to be."""


def one_thread() -> dict[str, str]:
    """The environment of a process with one such thread; empty where the user chose a number."""
    return {} if any(name in os.environ for name in ASKED) else dict.fromkeys(LIMITS, "1")
