"""Weights that lie in a file beside the .onnx file, as newer versions of PyTorch write them."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from onnx import ModelProto, TensorProto
from onnx.checker import ValidationError
from onnx.external_data_helper import load_external_data_for_tensor

from mcutrain.errors import ModelError

MAX_DATA_BYTES = 512 * 2**20  # of all such tensors together
LONGEST_NAME = 255


def load_data_beside(model: ModelProto, path: Path) -> None:
    """Read such initializers into the model. Raises ModelError for a file that is not there.

    Only files in the model's own folder or below are read, whatever links say (some versions of
    onnx follow them), and sizes are compared before.
    """
    total = 0
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        fields = {entry.key: entry.value for entry in tensor.external_data}
        file = _file(path, str(fields.get("location", "")), tensor.name)
        total += _length(fields.get("length"), file, tensor.name)
        if total > MAX_DATA_BYTES:
            raise ModelError(
                f"{path}: the tensors in other files have more than {MAX_DATA_BYTES >> 20} MiB, "
                "the limit"
            )
        try:
            load_external_data_for_tensor(tensor, str(path.parent))
        except (OSError, ValueError, ValidationError) as error:
            reason = " ".join(str(error).split())
            raise ModelError(
                f"{path}: the data of tensor {tensor.name!r} cannot be read from {file}: {reason}"
            ) from error
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def has_data_beside(content: bytes) -> bool:
    """Return whether an .onnx file, given whole, needs others."""
    initializers = ModelProto.FromString(content).graph.initializer
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in initializers)


def _file(path: Path, location: str, tensor: str) -> Path:
    """Return where the data lies."""
    place = PurePosixPath(location)
    is_name = location.isprintable() and 0 < len(location) <= LONGEST_NAME and place.parts
    if not is_name or place.is_absolute() or ".." in place.parts:
        raise ModelError(
            f"{path}: tensor {tensor!r} lies in {location[:80]!r}; supported is a file beside the "
            "model"
        )
    file = path.parent / place
    if not file.is_file():
        raise ModelError(
            f"{path}: the weights lie in the file {str(file)!r}, which does not exist: put it "
            "beside the model, or save the model with its data inside"
        )
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise ModelError(
            f"{path}: tensor {tensor!r} lies in {str(file)!r}, a link to {str(file.resolve())!r}, "
            "outside the model's folder: put the file itself beside the model"
        )
    return file


def _length(length: str | None, file: Path, tensor: str) -> int:
    """Return how many bytes are to be read; no more than the file has."""
    size = file.stat().st_size
    if length is None:
        return size
    if not (length.isascii() and length.isdigit()) or int(length[:20]) > size:
        raise ModelError(
            f"tensor {tensor!r} needs {length[:20]} bytes of {file}, which has {size}; is it cut "
            "short?"
        )
    return int(length)
