"""mcutrain augment: small trainable modules beside frozen layers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json, show_table
from mcutrain.functions.files import check_writable
from mcutrain.functions.options import MODULES
from mcutrain.functions.run_options import ReadingOptions

if TYPE_CHECKING:
    from mcutrain.functions.modules import AugmentedModel


def augment(
    model: shared_flags.Model,
    modules: Annotated[
        str,
        shared_flags.option(f"{MODULES}.", metavar="KIND[:R],…"),
    ],
    output: shared_flags.ModelOutput,
    data: Annotated[
        Path | None,
        shared_flags.option(
            "Training samples, as `mcutrain simulate` reads them. Some of them say the ranges "
            "and directions of the modules. Only gains need none."
        ),
    ] = None,
    *,
    samples: Annotated[int, typer.Option(min=1, help="Training samples to look at.")] = 50,
    reading: ReadingOptions,
    seed: shared_flags.Seed = 0,
    json: shared_flags.Json = False,
) -> None:
    """Put small trainable modules beside the layers of a model, which stay frozen.

    The outputs stay the same, bit for bit, until the modules are trained: `--scheme modules`, alone
    or with others as in `modules,bias:4`. `analyze` and `select` tell which of them are worth it.

    Example: `mcutrain augment model.tflite --modules adapter:8 --data images/ -o augmented.tflite`

    Example: `mcutrain augment model.tflite --modules lora-fa:4,at=last:6 --data images/ -o
    augmented.tflite`
    """
    from mcutrain.functions.modules import augment as augmented

    check_writable(output)
    found = augmented(
        model,
        modules,
        data,
        output,
        samples=samples,
        reading=reading,
        seed=seed,
        listener=OnScreen(json),
    )
    if json:
        show_json({"source": str(model), **found.to_dict()})
    else:
        _print(found)


def _print(found: AugmentedModel) -> None:
    facts = found.to_dict()
    columns = ("module", "at", "rank", "weights", "trained", "MACs")
    rows = [[m.kind, m.place, m.rank or None, m.weights, m.trained, m.macs] for m in found.modules]
    show_table(columns, rows, left=2)
    share = 100 * facts["macs"] / facts["macs_of_all"]
    count = "1 module" if len(rows) == 1 else f"{len(rows)} modules"
    show(
        f"{count}: {facts['weights']:,} weights, {facts['macs']:,} MACs more in an "
        f"inference ({share:.1f} % of all); {facts['trained']:,} weights and biases of them learn."
    )
    show(f"Written to {facts['file']}; outputs are the model's, bit for bit. To train the modules:")
    show(f"    mcutrain simulate {shlex.quote(facts['file'])} --data DATA --scheme modules")
