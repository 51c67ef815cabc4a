"""Trials in processes of this machine, or on a Dask or Ray cluster, through joblib."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mcutrain_host.packages import OPTIONAL

from mcutrain.errors import AnalysisError

BACKENDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
"""And the package of each. loky: processes of this machine."""

CONNECT_SECONDS = 20.0
"""To a cluster's scheduler."""

Call = tuple[str, Callable[..., Any], tuple[Any, ...]]
"""A key, a function of a module, and its arguments: plain values that can be pickled."""


@dataclass(frozen=True)
class Execution:
    """Where trials run. jobs: how many at once, None is one per core, or all of a cluster.

    scheduler: the address of a cluster; None starts a local one (dask) or finds one (ray).
    """

    jobs: int | None = None
    backend: str = "loky"
    scheduler: str | None = None


def check_backend(execution: Execution) -> None:
    """Raise AnalysisError now rather than after data were read, if trials cannot run there."""
    if execution.backend not in BACKENDS:
        raise AnalysisError(
            f"there is no backend {execution.backend!r}; use one of {', '.join(BACKENDS)}"
        )
    if execution.scheduler is not None and execution.backend == "loky":
        raise AnalysisError("a scheduler's address needs --backend dask or ray")
    package = OPTIONAL.get(BACKENDS[execution.backend])
    if package is not None and not package.is_installed:
        raise AnalysisError(package.missing)


@contextmanager
def workers(execution: Execution) -> Iterator[Workers]:
    """Processes that are there until the end of the block, also if it ends with an exception.

    Raises AnalysisError if the backend is not installed or not reached.
    """
    import joblib

    check_backend(execution)
    jobs = -1 if execution.jobs is None else execution.jobs
    with contextlib.ExitStack() as stack:
        stack.enter_context(_connected(execution))
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcutrain-analysis-"))
        stack.enter_context(joblib.parallel_config(backend=execution.backend, n_jobs=jobs))
        yield Workers(joblib.effective_n_jobs(), scratch, execution.backend == "loky")


@dataclass(frozen=True)
class Workers:
    """count: how many trials run at once. scratch: a folder on this machine for their files.

    is_local: whether they see the files of this machine.
    """

    count: int
    scratch: str
    is_local: bool
    _contents: dict[int, Any] = field(default_factory=dict, repr=False)

    def results(self, calls: Iterable[Call]) -> Iterator[tuple[str, Any]]:
        """Key and result of each call as it is ready, in any order.

        Leaving the iteration early ends what still runs.
        """
        import joblib

        parallel = joblib.Parallel(
            return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
        )
        found = parallel(
            joblib.delayed(_call)(os.getpid(), self.scratch, key, function, *self._sent(arguments))
            for key, function, arguments in calls
        )
        try:
            yield from found
        except joblib.externals.loky.process_executor.TerminatedWorkerError as error:
            raise AnalysisError(
                "a worker process was ended, perhaps because there is too little memory for so "
                f"many at once: give --jobs a smaller number, the same command continues ({error})"
            ) from error
        finally:
            found.close()

    def _sent(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Mapped files go to processes of this machine by name, elsewhere by content.

        The same array is the same object in every call, so that Dask sends it once per worker.
        """
        if self.is_local:
            return arguments
        return tuple(self._contents.setdefault(id(a), sendable(a)) for a in arguments)


def sendable(value: Any) -> Any:
    """A mapped array as a plain one that is pickled by content; anything else as it is."""
    return value.view(np.ndarray) if isinstance(value, np.memmap) else value


def _call(
    parent: int, scratch: str, key: str, function: Callable[..., Any], *arguments: Any
) -> tuple[str, Any]:
    """The key and what the function returns. Interruptions are the parent's to handle."""
    is_worker = os.getpid() != parent
    if is_worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if is_worker and os.path.isdir(scratch):  # noqa: PTH112
        tempfile.tempdir = scratch  # the parent deletes it, also after a kill
    return key, function(*arguments)


@contextmanager
def _connected(execution: Execution) -> Iterator[None]:
    if execution.backend == "loky":
        yield
    elif execution.backend == "dask":
        with _dask(execution):
            yield
    else:
        with _ray(execution):
            yield


@contextmanager
def _dask(execution: Execution) -> Iterator[None]:
    distributed = importlib.import_module("distributed")
    try:
        if execution.scheduler is None:
            client = distributed.Client(n_workers=execution.jobs, threads_per_worker=1)
        else:
            client = distributed.Client(execution.scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise _unreachable(execution, error) from error
    with client:
        yield


@contextmanager
def _ray(execution: Execution) -> Iterator[None]:
    ray = importlib.import_module("ray")
    register = importlib.import_module("ray.util.joblib")
    try:
        ray.init(address=execution.scheduler, num_cpus=execution.jobs, log_to_driver=False)
    except (OSError, ValueError, ConnectionError, RuntimeError) as error:
        raise _unreachable(execution, error) from error
    register.register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def _unreachable(execution: Execution, error: Exception) -> AnalysisError:
    where = execution.scheduler or "on this machine"
    return AnalysisError(
        f"the {execution.backend} cluster {where} does not answer: {error}; every worker needs "
        "the same version of mcutrain and a C compiler"
    )
