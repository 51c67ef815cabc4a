"""What mcutrain reads and trains, of small networks of many families: a table by exporter.

    .venv/bin/python benchmarks/zoo.py nets --write    # onnx.helper, onnxruntime's two forms
    python benchmarks/export_torch.py nets             # with PyTorch, in an environment of its own
    python benchmarks/export_keras.py nets --onnx      # with TensorFlow, in another one
    python benchmarks/export_classes.py nets           # with timm and transformers
    .venv/bin/python benchmarks/zoo.py nets            # the table, and every refusal

Files are named NETWORK.EXPORTER.onnx or .tflite. A float file is read if it is quantized by noise,
an int8 one if it is loaded; trained if a step of --scheme is planned, with all its gradients.
--prepare: what --write quantizes is pre-processed first, as onnxruntime recommends. --verify: of
int8 files, and of what was quantized, outputs that differ from the file's own runtime.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

import mcutrain
from mcutrain.errors import DataError, McutrainError
from mcutrain.formats import load, read_float
from mcutrain.formats.contents import contents_of
from mcutrain.ir.graph import Graph

SAMPLES = 12
LOSSES = ("cross-entropy", "mse", "binary-cross-entropy")
SHORT = 200  # characters of a refusal


@dataclass(frozen=True)
class Outcome:
    """What came of a file. refusal: why it is not read; trains: empty, or why it does not."""

    network: str
    exporter: str
    refusal: str = ""
    trains: str = ""
    differing: str = ""

    @property
    def is_read(self) -> bool:
        """Whether there is an int8 graph of it."""
        return not self.refusal

    @property
    def is_trained(self) -> bool:
        """Whether steps ran."""
        return self.is_read and not self.trains


def outcome(path: Path, scheme: str, verifies: bool) -> Outcome:
    """Read, quantize if it is float, train."""
    network, exporter = path.name.split(".")[:2]
    with TemporaryDirectory() as folder:
        try:
            int8 = _int8(path, Path(folder))
            graph = load(int8)
        except McutrainError as error:
            return Outcome(network, exporter, refusal=str(error))
        differing = _differing(int8) if verifies else ""
        try:
            _train(graph, scheme)
        except McutrainError as error:
            return Outcome(network, exporter, trains=str(error), differing=differing)
    return Outcome(network, exporter, differing=differing)


def _int8(path: Path, folder: Path) -> Path:
    """The file, or what is quantized of it."""
    if not contents_of(path).is_float and not _is_hybrid(path):
        return path
    order = read_float(path).input_order
    rng, shape = np.random.default_rng(1), (SAMPLES, *order.shape)
    x = rng.integers(0, order.ids, shape) if order.ids else rng.uniform(-1, 1, shape)
    x = x.astype(np.int32 if order.ids else np.float32)
    try:
        made = mcutrain.quantize(path, x, folder)
    except DataError as error:  # outputs of random weights may all be the same
        raise McutrainError(f"quantize: {error}") from error
    assert made.path is not None
    return made.path


def _is_hybrid(path: Path) -> bool:
    return path.name.endswith(".keras-dynamic.tflite")


def _differing(path: Path) -> str:
    from mcutrain.oracle.forward import compare

    last = compare(path, samples=8, reference_samples=8).comparisons[-1]
    return f"{last.differing}/{last.outputs} by {last.largest}" if last.differing else "0"


def _train(graph: Graph, scheme: str) -> None:
    """Plan a step, with the first loss that fits. Raises McutrainError with the first refusal."""
    errors = []
    for loss in LOSSES:
        try:
            mcutrain.prepare(graph, scheme, loss=loss)
        except McutrainError as error:
            errors.append(error)
        else:
            return
    raise errors[0]


# ------------------------------------------------------------------------------------------ writing


def write(folder: Path, names: Sequence[str], prepares: bool = False) -> None:
    """The networks of tests by onnx.helper, and by onnxruntime's quantizer in all its forms."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import onnx

    from tests.formats.qoperator_models import NETWORKS, quantized

    kinds = {
        "s8s8": ("Int8", "Int8", True), "u8s8": ("UInt8", "Int8", False),
        "u8u8": ("UInt8", "UInt8", False),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NETWORKS:
        make = NETWORKS[name]
        onnx.save(make().proto(), folder / f"{name}.helper.onnx")
        for form in ("QDQ", "QOperator"):
            for kind, choice in kinds.items():
                with TemporaryDirectory() as work:
                    path = Path(work) / "m.onnx"
                    made = quantized(make(), path, form, *choice, prepares=prepares)
                    target = folder / f"{name}.ort-{form.lower()}-{kind}.onnx"
                    target.write_bytes(made.read_bytes())


# ------------------------------------------------------------------------------------------- tables


def coverage(found: Sequence[Outcome]) -> Table:
    """A row for each exporter."""
    table = Table("exporter", "files", "read", "trained")
    groups: dict[str, list[Outcome]] = {}
    for one in found:
        groups.setdefault(one.exporter, []).append(one)
    for exporter, of_it in sorted(groups.items()):
        table.add_row(exporter, *_counts(of_it))
    table.add_section()
    table.add_row("all", *_counts(found))
    return table


def _counts(found: Sequence[Outcome]) -> tuple[str, str, str]:
    read, trained = (sum(map(of, found)) for of in (_is_read, _is_trained))
    return str(len(found)), str(read), str(trained)


def _is_read(one: Outcome) -> bool:
    return one.is_read


def _is_trained(one: Outcome) -> bool:
    return one.is_trained


def refusals(found: Sequence[Outcome]) -> list[str]:
    """Each refusal once, the most frequent first, with the files it concerns."""
    texts: dict[str, list[str]] = {}
    for one in found:
        said = one.refusal or (one.trains and f"not trained: {one.trains}")
        if said:
            texts.setdefault(_plain(said), []).append(f"{one.network}.{one.exporter}")
    ranked = sorted(texts.items(), key=lambda item: (-len(item[1]), item[0]))
    return [f"{len(files)}× {text}\n    {' '.join(files)}" for text, files in ranked]


def _plain(text: str) -> str:
    """A refusal without what only names this file and node."""
    text = re.sub(r"\S*/\S+\.(onnx|tflite)", "FILE", text)
    text = re.sub(r"(node|tensor|output) '[^']*'( and \d+ more)?", r"\1 …", text)
    text = re.sub(r" of '[^']*'", "", text)
    text = re.sub(r"; supported are ([A-Z]\w+, ){3}.*", "", text)
    return " ".join(text.split())[:SHORT]


def operators_of(found: Sequence[Outcome]) -> Counter[str]:
    """How many files each operator of a refusal blocks."""
    count: Counter[str] = Counter()
    for one in found:
        names = set(re.findall(r"\b([A-Z][A-Za-z0-9_]+) \((?:node|\d+ nodes)", one.refusal))
        count.update(names)
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="networks that need no other package")
    parser.add_argument("--prepare", action="store_true", help="by quant_pre_process, with --write")
    parser.add_argument("--names", nargs="*", default=[], help="of those that are written")
    parser.add_argument("--scheme", default="full")
    parser.add_argument("--verify", action="store_true")
    args = parser.parse_args(arguments)
    if args.write:
        write(args.folder, args.names, args.prepare)
    paths = sorted(p for p in args.folder.iterdir() if p.suffix in (".onnx", ".tflite"))
    found = []
    for path in paths:
        found.append(outcome(path, args.scheme, args.verify))
        state = "trained" if found[-1].is_trained else "read" if found[-1].is_read else "refused"
        print(f"{path.name}: {state} {found[-1].differing}", file=sys.stderr, flush=True)
    console = Console(width=100)
    console.print(coverage(found))
    for text in refusals(found):
        print(text)
    counted: Mapping[str, int] = operators_of(found)
    if counted:
        print("operators in the way:", ", ".join(f"{n} {c}" for n, c in counted.most_common()))


if __name__ == "__main__":
    main()
