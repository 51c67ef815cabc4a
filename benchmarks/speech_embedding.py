"""Makes a keyword network to teach of Google's speech_embedding, which thousands of words trained.

    pip download --no-deps openwakeword==0.4.0
    .venv/bin/python benchmarks/speech_embedding.py hear --words FOLDER --noise FOLDER -o known
    .venv/bin/python benchmarks/speech_embedding.py make openwakeword-0.4.0-py3-none-any.whl known \
        -o words.onnx
    .venv/bin/mcutrain quantize words.onnx --calibration known --frontend mel:high=3800 \
        -o words.int8.onnx
    .venv/bin/python benchmarks/taught_word.py … --model words.int8.onnx --known known \
        --white-alone --clips 1500 --hop 40 --agree 1

Lin and others, "Training Keyword Spotters with Limited and Synthesized Speech Data", 2020, trained
it; it has the license Apache-2.0, as the package says. It makes 96 numbers of 76 frames of 32 mel
bands. Here its last layer is left out, and the 96 numbers before it are averaged over more frames,
so that a word may begin earlier or later. A classifier of the means of the classes in `known`, a
folder of WAV files for each, is put behind it. The frames are those of the front end `mel`.

hear: windows of a second and more, as the trigger finds them, of the words and people that
taught_word.py does not test; of each person so many utterances of each word.
"""

from __future__ import annotations

import argparse
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcutrain.frontends import parse
from mcutrain.frontends.trigger import windows_heard

Array = npt.NDArray[Any]
RATE, FRAMES, BANDS = 16_000, 116, 32
MODEL = "openwakeword/resources/models/embedding_model.onnx"
FRONT = f"mel:high=3800,bands={BANDS},frames={FRAMES}"
"""Whose levels are ten times what the network takes, but for 0.03."""
PER_LEVEL = 0.1


def hear(words: Path, noise: Path, each: int, output: Path) -> None:
    """Write output/WORD/PERSON_NUMBER.wav."""
    from taught_word import Recordings

    part, random = Recordings.parts(words, noise, 0)[0], np.random.default_rng(1)
    front, pause = parse(FRONT), np.zeros(RATE * 3 // 2)
    for word in part.words:
        (output / word).mkdir(parents=True)
        for person in part.people:
            for number, sound in enumerate(part.said(word, person)[:each]):
                whole = part.behind(np.concatenate([pause, sound, pause]), random)
                for end in windows_heard(front, whole)[:1]:
                    last = end * front.hop + front.least_samples
                    clip = whole[last - front.input_shape[0] : last]
                    with wave.open(str(output / word / f"{person}_{number}.wav"), "wb") as file:
                        file.setparams((1, 2, RATE, 0, "NONE", ""))
                        file.writeframes(clip.astype("<i2").tobytes())


def body(wheel: Path) -> onnx.GraphProto:
    """The network up to its last layer, of levels (1, 1, frames, bands)."""
    with zipfile.ZipFile(wheel) as archive:
        graph = onnx.load_model_from_string(archive.read(MODEL)).graph
    pad, reshape, first, *rest, pool, last, _ = graph.node
    kinds = [n.op_type for n in (pad, reshape, first, pool, last)]
    assert kinds == ["Pad", "Reshape", "Conv", "MaxPool", "Conv"], "another network"
    values = {x.name: numpy_helper.to_array(x) for x in graph.initializer}
    values[first.input[1]] = (values[first.input[1]] * PER_LEVEL).astype(np.float32)
    padded = helper.make_node("Conv", ["x", *first.input[1:]], first.output, pads=[0, 1, 0, 1])
    nodes = [padded, *rest, pool]
    used = {name for node in nodes for name in node.input}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, FRAMES, BANDS))
    y = helper.make_tensor_value_info("m", TensorProto.FLOAT, None)
    nodes.append(helper.make_node("GlobalAveragePool", pool.output, ["m"]))
    constants = [numpy_helper.from_array(v, n) for n, v in values.items() if n in used]
    return helper.make_graph(nodes, "speech_embedding", [x], [y], constants)


def model_of(graph: onnx.GraphProto) -> onnx.ModelProto:
    """A model of a graph."""
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def make(wheel: Path, known: Path, output: Path) -> None:
    """Write the network with a classifier of class means."""
    import onnxruntime
    from taught_word import read

    graph, front = body(wheel), parse(FRONT)
    session = onnxruntime.InferenceSession(model_of(graph).SerializeToString())
    means = []
    for folder in sorted(p for p in known.iterdir() if p.is_dir()):
        sounds = (read(path)[np.newaxis] for path in sorted(folder.glob("*.wav")))
        inputs = (front.real(sound)[:, np.newaxis] for sound in sounds)
        means.append(np.mean([session.run(None, {"x": x})[0].ravel() for x in inputs], axis=0))
    w = np.array(means) - np.mean(means, axis=0)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    values = {"head.w": w[:, :, np.newaxis, np.newaxis], "head.b": -w @ np.mean(means, axis=0)}
    graph.initializer.extend(
        numpy_helper.from_array(v.astype(np.float32), n) for n, v in values.items()
    )
    graph.node.append(helper.make_node("Conv", ["m", *values], ["s"], name="head"))
    graph.node.append(helper.make_node("Flatten", ["s"], ["y"]))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, len(w)))
    graph.output[0].CopyFrom(y)
    onnx.checker.check_model(model_of(graph))
    onnx.save(model_of(graph), output)


def main() -> None:
    """Do a part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    of_hear, of_make = parts.add_parser("hear"), parts.add_parser("make")
    of_hear.add_argument("--words", type=Path, required=True, help="as taught_word.py has it")
    of_hear.add_argument("--noise", type=Path, required=True, help="a folder of WAV files")
    of_hear.add_argument("--each", type=int, default=4, help="utterances of a word by a person")
    of_make.add_argument("wheel", type=Path, help="of openwakeword 0.4.0")
    of_make.add_argument("known", type=Path, help="WAV files, in a folder of each class")
    for one in (of_hear, of_make):
        one.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    if asked.part == "hear":
        hear(asked.words, asked.noise, asked.each, asked.output)
    else:
        make(asked.wheel, asked.known, asked.output)


if __name__ == "__main__":
    main()
