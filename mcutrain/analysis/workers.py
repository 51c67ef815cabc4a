"""Trials in processes of this machine or on a Dask cluster, through joblib, or on a Ray cluster."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.packages import OPTIONAL

from mcutrain.errors import AnalysisError

BACKENDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
"""Backends, and the package of each. loky: processes of this machine."""

CONNECT_SECONDS = 20.0
"""Seconds to connect to a cluster's scheduler."""

TRACKER_WARNINGS = "ignore::UserWarning:joblib.externals.loky.backend.resource_tracker"

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
        stack.enter_context(_quiet_tracker())
        stack.enter_context(_connected(execution))
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcutrain-analysis-"))
        if execution.backend == "ray":
            count = _ray_count(execution)
        else:
            stack.enter_context(joblib.parallel_config(backend=execution.backend, n_jobs=jobs))
            count = joblib.effective_n_jobs()
        if count < 1:
            raise AnalysisError(
                f"the {execution.backend} cluster {_place(execution)} has no worker: start one"
            )
        yield Workers(count, scratch, execution)


@dataclass(frozen=True)
class Workers:
    """count: how many trials run at once. scratch: a folder on this machine for their files."""

    count: int
    scratch: str
    execution: Execution
    _contents: dict[int, Any] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether they see the files of this machine."""
        return self.execution.backend == "loky"

    def results(self, calls: Iterable[Call]) -> Iterator[tuple[str, Any]]:
        """Key and result of each call as it is ready, in any order.

        Leaving the iteration early ends what still runs. Raises AnalysisError if a process or the
        cluster is lost.
        """
        import joblib

        whole = (
            (os.getpid(), self.scratch, key, function, *self._sent(arguments))
            for key, function, arguments in calls
        )
        if self.execution.backend == "ray":
            found = _ray_results(whole, 2 * self.count)
        else:
            parallel = joblib.Parallel(
                return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
            )
            found = parallel(joblib.delayed(_call)(*arguments) for arguments in whole)
        try:
            yield from found
        except joblib.externals.loky.process_executor.TerminatedWorkerError as error:
            raise AnalysisError(
                "a worker process was ended, perhaps because there is too little memory for so "
                f"many at once: give --jobs a smaller number, the same command continues ({error})"
            ) from error
        except Exception as error:
            if not _is_of_a_cluster(error):
                raise
            raise AnalysisError(
                f"the {self.execution.backend} cluster {_place(self.execution)} lost a worker, or "
                f"its scheduler ({_first_line(error)}); what is done is kept, and the same command "
                "continues"
            ) from error
        finally:
            with suppress(Exception):  # of a cluster that is gone
                found.close()

    def _sent(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Mapped files go to processes of this machine by name, elsewhere by content.

        The same array is the same object in every call, so that Dask sends it once per worker.
        """
        if self.is_local:
            return arguments
        return tuple(self._contents.setdefault(id(a), sendable(a)) for a in arguments)


def _is_of_a_cluster(error: Exception) -> bool:
    """Return whether it was not a trial that failed, but what runs it."""
    package = type(error).__module__.partition(".")[0]
    lost = (TimeoutError, ConnectionError, futures.CancelledError, futures.TimeoutError)
    return package in ("distributed", "dask", "ray", "tornado") or isinstance(error, lost)


def _place(execution: Execution) -> str:
    return execution.scheduler or "on this machine"


def _first_line(error: Exception) -> str:
    """Without the advice to programmers that follows."""
    line = next(iter(str(error).strip().splitlines()), "")
    return line.removesuffix(":")[:300] or type(error).__name__


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
    if is_worker:
        os.environ["MCT_THREADS"] = "1"  # of the simulated C: there is a worker for each core
    return key, function(*arguments)


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """joblib's process that cleans up begins now, and says nothing of what Ctrl-C left to it.

    Python's warnings name semaphores that it deletes, or that were gone before. They do not help
    whoever presses Ctrl-C.
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (before, TRACKER_WARNINGS)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


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
    cpus = execution.jobs if execution.scheduler is None else None  # a cluster has its own
    try:
        _check_listening(execution.scheduler)
        ray.init(address=execution.scheduler, num_cpus=cpus, log_to_driver=False)
    except Exception as error:  # ray's own share no base with Python's
        raise _unreachable(execution, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_listening(address: str | None) -> None:
    """Raise OSError if nothing does: ray itself waits for minutes."""
    where = urlsplit(address if address and "://" in address else f"//{address or ''}")
    if where.hostname and where.port:
        socket.create_connection((where.hostname, where.port), CONNECT_SECONDS).close()


def _ray_count(execution: Execution) -> int:
    """Return how many trials run at once there."""
    ray = importlib.import_module("ray")
    cpus = int(ray.cluster_resources().get("CPU", 0))
    return cpus if execution.jobs is None else min(cpus, execution.jobs)


def _ray_results(
    calls: Iterator[tuple[Any, ...]], most: int
) -> Generator[tuple[str, Any], None, None]:
    """As they are ready, at most so many sent ahead; joblib's way to ray gives them in order only.

    A trial's own exception is raised as it was.
    """
    ray = importlib.import_module("ray")
    task = ray.remote(max_retries=0)(_call)
    sent = [task.remote(*arguments) for arguments in islice(calls, most)]
    try:
        while sent:
            (ready, *_), sent = ray.wait(sent, num_returns=1)
            sent += [task.remote(*arguments) for arguments in islice(calls, 1)]
            try:
                yield ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
    finally:
        for waiting in sent:
            ray.cancel(waiting, force=True)


def _unreachable(execution: Execution, error: Exception) -> AnalysisError:
    return AnalysisError(
        f"the {execution.backend} cluster {_place(execution)} does not answer: "
        f"{_first_line(error)}; every worker needs the same version of mcutrain and a C compiler"
    )
