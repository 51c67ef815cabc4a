"""Files of other tools: the sentence with the line of Python that writes what mcutrain reads."""

from __future__ import annotations

from pathlib import Path

from mcutrain.errors import ModelError

TORCH = (
    "in Python, torch.onnx.export(model.eval(), torch.zeros(1, 3, 96, 96), 'model.onnx') with your "
    "input's shape"
)
CONVERTED = "open('model.tflite', 'wb').write(tf.lite.TFLiteConverter"
KERAS = (
    f"in Python, {CONVERTED}.from_keras_model(tf.keras.models.load_model({{path!r}})).convert())"
)
SAVED = f"in Python, {CONVERTED}.from_saved_model({{folder!r}}).convert())"
NEXT = "; then `mcutrain quantize` reads it"
FOREIGN = {
    ".pt": ("is a file of PyTorch", TORCH),
    ".pth": ("is a file of PyTorch", TORCH),
    ".ckpt": ("is a checkpoint of a training program", TORCH),
    ".safetensors": ("has weights without their network", f"load them into it; {TORCH}"),
    ".pte": ("is a compiled program of ExecuTorch", f"go back to the PyTorch model; {TORCH}"),
    ".keras": ("is a file of Keras", KERAS),
    ".h5": ("is a file of Keras", KERAS),
    ".hdf5": ("is a file of Keras", KERAS),
    ".pb": ("is a file of TensorFlow", SAVED),
}
"""What files of other tools are, and what to do, by suffix."""


def is_saved_model(path: Path) -> bool:
    """Return whether it is a folder that TensorFlow wrote."""
    return (path / "saved_model.pb").is_file()


def not_a_model(path: Path) -> ModelError:
    """Return the error for a file or folder that is neither .tflite nor .onnx."""
    if is_saved_model(path):
        what, line, folder = "is a SavedModel of TensorFlow", SAVED, path
    elif path.suffix.lower() in FOREIGN:
        (what, line), folder = FOREIGN[path.suffix.lower()], path.parent
    else:
        return ModelError(f"{path} is neither a .tflite nor an .onnx file")
    return ModelError(f"{path} {what}: {line.format(path=str(path), folder=str(folder))}{NEXT}")
