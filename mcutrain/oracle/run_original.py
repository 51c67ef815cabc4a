"""Runs a float model by its own runtime, in a process of its own: runtimes crash on odd files.

    python -m mcutrain.oracle.run_original MODEL INPUTS.npy OUTPUTS.npz

INPUTS: float32 [n, …]. Each gets the batch axis of the file in front, and is converted to its
element type. For a model with several inputs it is a row that has one after the other. OUTPUTS: one
array per output of the model, [n, …].
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.chosen_outputs import kept

Array = npt.NDArray[Any]

MAX_BYTES = 8 * 2**30  # of address space: runtimes believe the sizes that a damaged file says
_ELEMENTS = {
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
NOT_INSTALLED = 3
REFUSED = 4


def main() -> int:
    """The exit code: 0, NOT_INSTALLED, or REFUSED with the reason on stderr."""
    model, inputs, outputs = (Path(argument) for argument in sys.argv[1:])
    bound_memory(MAX_BYTES)
    run = _run_onnx if model.suffix.lower() == ".onnx" else _run_tflite
    try:
        results = run(model, np.load(inputs))
    except ImportError:
        return NOT_INSTALLED
    except Exception as error:  # the runtimes' own errors share no other base
        sys.stderr.write(" ".join(str(error).split())[:500] + "\n")
        return REFUSED
    np.savez(outputs, *results)
    return 0


def bound_memory(most_bytes: int) -> None:
    """Let this process have no more address space, where the system knows such a limit."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, hard))


def _run_onnx(model: Path, x: Array) -> list[Array]:
    try:
        session = _onnx_session(str(model))
    except ImportError:
        raise
    except Exception:
        # jax2onnx leaves shapes of tensors from before it took Transposes out (0.17.1)
        import onnx

        proto = onnx.load(model)
        if not proto.graph.value_info:
            raise
        del proto.graph.value_info[:]
        session = _onnx_session(proto.SerializeToString())
    inputs = session.get_inputs()
    x = x.astype(_ELEMENTS.get(inputs[0].type, np.float32))
    names = [y.name for y in session.get_outputs()]
    wanted = [names[i] for i in kept(names)]
    batch = inputs[0].shape[0]
    copies = batch if isinstance(batch, int) else 1  # a file may be fixed to several samples
    found = []
    for one in x:
        parts = [one] if len(inputs) == 1 else cut_apart(one, [i.shape[1:] for i in inputs])
        copied = [np.repeat(part[None], copies, axis=0) for part in parts]
        results = session.run(wanted, {i.name: p for i, p in zip(inputs, copied, strict=True)})
        found.append([y[:1] if copies > 1 else y for y in results])
    return [np.concatenate(ys).astype(np.float32) for ys in zip(*found, strict=True)]


def cut_apart(row: Array, shapes: Sequence[Sequence[int]]) -> list[Array]:
    """The inputs of a model, of which a sample has one after the other."""
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
    parts = np.split(row.ravel(), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _onnx_session(model: str | bytes) -> Any:
    """Open a session for a file, or for what would be in one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run_tflite(model: Path, x: Array) -> list[Array]:
    from mcutrain.oracle.interpreter import find_interpreter

    installed = find_interpreter()
    if installed is None:
        raise ImportError
    interpreter = installed.module.Interpreter(
        model_path=str(model),
        experimental_op_resolver_type=installed.module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    inputs, details = interpreter.get_input_details(), interpreter.get_output_details()
    details = [details[i] for i in kept([d["name"] for d in details])]
    found = []
    for one in x:
        interpreter.reset_all_variables()  # a recurrent layer's state is one
        for source, part in zip(inputs, cut_apart(one, [i["shape"] for i in inputs]), strict=True):
            interpreter.set_tensor(source["index"], part.astype(source["dtype"]))
        interpreter.invoke()
        found.append([np.array(interpreter.get_tensor(d["index"])) for d in details])
    return [np.stack([np.asarray(y) for y in ys]) for ys in zip(*found, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
