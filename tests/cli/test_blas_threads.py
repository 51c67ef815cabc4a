"""Matrix products of numpy take one thread of our processes, unless a user chose a number."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mcutrain.blas import ASKED, LIMITS, one_thread
from mcutrain.experiments.parallel import _executor

COMMAND = """
import os, sys
sys.argv = ["mcutrain", "--help"]
from mcutrain.cli import main
try:
    main()
except SystemExit:
    pass
import numpy as np
a = np.ones((512, 512))
a @ a
print(len(os.listdir("/proc/self/task")), file=sys.stderr)
"""
NEEDED = pytest.mark.skipif(
    not os.path.isdir("/proc/self/task") or len(os.sched_getaffinity(0)) < 2,  # noqa: PTH112
    reason="threads are counted on Linux, where there are two processors",
)


def threads_of_a_command(**environment: str) -> int:
    """Of a process that ran one, after a product."""
    kept = {name: value for name, value in os.environ.items() if name not in ASKED}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.splitlines()[-1])


@NEEDED
def test_a_command_multiplies_by_one_thread() -> None:
    assert threads_of_a_command() == 1


@pytest.mark.slow
@NEEDED
@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_a_number_that_the_user_chose_stays(name: str) -> None:
    assert threads_of_a_command(**{name: "2"}) == 2


@pytest.mark.parametrize("name", ASKED)
def test_whatever_the_user_chose_nothing_is_set_beside_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ASKED:
        monkeypatch.delenv(other, raising=False)
    assert one_thread() == dict.fromkeys(LIMITS, "1")
    monkeypatch.setenv(name, "3")
    assert one_thread() == {}


def test_processes_that_train_have_one_thread_whoever_starts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those of a Python program, whose own numpy stays as it is."""
    for name in ASKED:
        monkeypatch.delenv(name, raising=False)
    executor = _executor(1)
    try:
        found = executor.submit(os.getenv, "OPENBLAS_NUM_THREADS").result(timeout=300)
    finally:
        executor.shutdown(wait=True, kill_workers=True)
    assert found == "1"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
