"""Packages of `mcutrain generate --as`, read by the tools of their build systems.

    .venv/bin/pip install idf-component-manager platformio xmlschema
    .venv/bin/python benchmarks/packages.py [--pack-schema PACK.xsd]

Each tool checks the manifest of its kind; what is not installed is said. PACK.xsd is published in
the repository Open-CMSIS-Pack/Open-CMSIS-Pack-Spec. PlatformIO looks up licences in the network: it
gets the manifest without that field.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

import mcutrain
from mcutrain import demo

MODEL = "fashion.int8.tflite"


def main() -> None:
    """Print one table; exit 1 if a tool refuses a manifest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path(demo.__file__).parent / MODEL)
    parser.add_argument("--pack-schema", type=Path)
    arguments = parser.parse_args()
    table = Table("package", "checked by", "result")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for kind in ("cmake", "esp-idf", "platformio", "cmsis-pack"):
            mcutrain.generate(arguments.model, folder / kind, "head", prefix="wake", package=kind)
        rows = [
            ("cmake", *cmake(folder / "cmake")),
            ("esp-idf", *esp_idf(folder / "esp-idf")),
            ("platformio", *platformio(folder / "platformio")),
            ("cmsis-pack", *cmsis_pack(folder / "cmsis-pack", arguments.pack_schema)),
        ]
    for row in rows:
        table.add_row(*row)
    Console(width=100).print(table)
    sys.exit(any(result.startswith("refused") for _, _, result in rows))


def outcome(command: list[str], folder: Path) -> str:
    """What a tool says."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return "taken" if done.returncode == 0 else f"refused: {(done.stdout + done.stderr)[-300:]}"


def cmake(folder: Path) -> tuple[str, str]:
    """Configured, built, its test run, installed."""
    if shutil.which("cmake") is None:
        return "-", "cmake is not installed"
    said = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
    steps = (
        ["cmake", "-S", ".", "-B", "build"],
        ["cmake", "--build", "build"],
        ["ctest", "--test-dir", "build"],
        ["cmake", "--install", "build", "--prefix", "installed"],
    )
    results = [outcome(step, folder) for step in steps]
    return said.splitlines()[0], next(
        (r for r in results if r != "taken"), "built, tested, installed"
    )


def esp_idf(folder: Path) -> tuple[str, str]:
    """Packed by the component manager."""
    if importlib.util.find_spec("idf_component_manager") is None:
        return "-", "idf-component-manager is not installed"
    compote = str(Path(sys.executable).with_name("compote"))
    command = [compote, "component", "pack", "--name", "wake_model", "--dest-dir", "packed"]
    return f"compote {version('idf-component-manager')}", outcome(command, folder)


def platformio(folder: Path) -> tuple[str, str]:
    """Packed by PlatformIO, without the licence, which it would look up in the network."""
    if importlib.util.find_spec("platformio") is None:
        return "-", "platformio is not installed"
    manifest = json.loads((folder / "library.json").read_text())
    del manifest["license"]
    (folder / "library.json").write_text(json.dumps(manifest))
    pio = str(Path(sys.executable).with_name("pio"))
    return f"pio {version('platformio')}", outcome([pio, "pkg", "pack"], folder)


def cmsis_pack(folder: Path, schema: Path | None) -> tuple[str, str]:
    """Valid by the schema of pack descriptions."""
    if schema is None or importlib.util.find_spec("xmlschema") is None:
        return "-", "give --pack-schema, and install xmlschema"
    import xmlschema

    errors = list(xmlschema.XMLSchema(schema).iter_errors(folder / "mcutrain.wake_model.pdsc"))
    return "PACK.xsd", f"refused: {errors[0]}" if errors else "valid"


if __name__ == "__main__":
    main()
