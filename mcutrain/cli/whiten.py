"""mcutrain whiten: a model that a few samples teach a new class."""

from __future__ import annotations

import shlex

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json
from mcutrain.functions.files import check_writable
from mcutrain.functions.run_options import ReadingOptions


def whiten(
    model: shared_flags.Model,
    output: shared_flags.ModelOutput,
    data: shared_flags.Data,
    *,
    reading: ReadingOptions,
    seed: shared_flags.Seed = 0,
    json: shared_flags.Json = False,
) -> None:
    """Make a model ready to learn a new class, such as a word, from a few samples.

    It puts two layers before the classifier, behind which features have no correlation and one
    length, and a new classifier of the means of the data's classes. Boards of `generate --imprint`
    then tell a new class far better. Only .onnx files can have such layers.

    Example: `mcutrain whiten words.int8.tflite --data sounds/ -o white.onnx`
    """
    from mcutrain.functions.whitening import whiten as whitened

    check_writable(output)
    found = whitened(model, data, output, reading=reading, seed=seed, listener=OnScreen(json))
    if json:
        show_json({"source": str(model), **found.to_dict()})
        return
    show(f"{found.summary()}.")
    show(f"Written to {output}. A project that learns one more class from samples of it:")
    command = f"mcutrain generate {shlex.quote(str(output))} --scheme head --add-class NAME"
    show(f"    {command} --imprint --data DATA -o project")
