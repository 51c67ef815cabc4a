"""Models out of what was trained: in the original's file if that can be, else written anew."""

from __future__ import annotations

from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.formats import format_of, format_of_content, load, patch, write
from mcutrain.ir.difference import changed
from mcutrain.ir.graph import Graph
from mcutrain.shown import Record, Shown
from mcutrain.sparse.modules import whole_modules


@dataclass(frozen=True, repr=False)
class Export(Shown):
    """What was written. changed: names of the constants that are other than the original's.

    reason: why the file was written anew; empty if it is the original's with other parameters.
    other_bits: why mcutrain, reading the file back, computes other bits; empty if it does not.
    merged: what became of modules, and how outputs changed; empty if they stayed. outputs: shapes.
    frontend: what made its samples of raw ones, if the file does not say so; else empty.
    """

    path: Path
    size_bytes: int
    changed: tuple[str, ...]
    reason: str = ""
    other_bits: str = ""
    merged: str = ""
    outputs: tuple[tuple[int, ...], ...] = ()
    frontend: str = ""

    @property
    def is_original(self) -> bool:
        """Whether it is the original's file with other parameters."""
        return not self.reason

    def summary(self) -> str:
        """Return a line that describes it."""
        how = f"written anew: {self.reason}" if self.reason else "all else is the original's"
        return f"{self.path}, {self.size_bytes:,} bytes, {len(self.changed)} tensors new, {how}"

    def records(self) -> list[Record]:
        """The names of what changed."""
        return [{"tensor": name} for name in self.changed]

    def to_dict(self) -> Record:
        """Return it as `mcutrain export --json` prints it, without what it was made from."""
        return {
            "file": str(self.path),
            "bytes": self.size_bytes,
            "outputs": [list(shape) for shape in self.outputs],
            "changed": list(self.changed),
            "kept_the_file": self.is_original,
            "written_anew_because": self.reason or None,
            "other_bits_because": self.other_bits or None,
            "merged": self.merged or None,
            "frontend_not_in_file": self.frontend or None,
        }


def export(
    source: Path,
    original: Graph,
    trained: Graph,
    path: Path,
    *,
    merged: str = "",
    has_modules_put: bool = False,
) -> Export:
    """Write the trained graph as a file of the format that its name says.

    source: the file that `original` was loaded from. has_modules_put: modules were put into its
    graph to make the original. merged: what became of modules that the trained graph has no more;
    the file is then written anew. If the format stays, all but the parameters (names, metadata,
    signatures, types of inputs and outputs) is kept from it. What is written is read back before it
    takes its place; a .tflite file must then compute the same bits. Raises McutrainError.
    """
    suffix = format_of(path)
    names = changed(original, trained)
    reason = f"{source.name} is of another format"
    if merged:
        reason = "modules are merged into its layers"
    elif has_modules_put:
        reason = f"{source.name} has no modules"
    elif _module_sizes(trained) != _module_sizes(original):
        reason = "modules that were not trained are left out"
    elif suffix == format_of_content(source):
        reason = patch(source, original, trained, path)
    other_bits = write(trained, path) if reason else ""
    outputs = tuple(t.shape for t in trained.types(trained.outputs))
    size_bytes, unsaid = path.stat().st_size, _unsaid_frontend(trained, source, reason)
    return Export(path, size_bytes, names, reason, other_bits, merged, outputs, unsaid)


def _unsaid_frontend(trained: Graph, source: Path, reason: str) -> str:
    """The front end of a graph that was written into the file `source`, which says none."""
    order = trained.input_order
    if order is None or order.frontend is None or reason:
        return ""
    own = load(source).input_order
    return order.frontend.text if own is None or own.frontend is None else ""


def _module_sizes(graph: Graph) -> dict[str, int]:
    return {name: module.channels for name, module in whole_modules(graph).items()}
