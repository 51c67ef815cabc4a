"""The project as a whole: what an installation and a wheel hold, and who imports whom."""

import ast
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path

import pytest

import mcutrain

REPOSITORY = Path(__file__).resolve().parents[2]

FOLDERS = {
    "mcutrain": "mcutrain",
    "mcutrain_firmware": "firmware",
    "mcutrain_host": "host",
    "mcutrain_schemes": "examples/schemes",
    "mcutrain_templates": "codegen_templates",
}

LEFTOVERS = ("__pycache__", "*.a", "*.d", "*.elf", "*.o", "*.so", ".*")

TWICE = {
    "BuildError": "host tools stand alone with their errors, which mcutrain's own is raised from",
}
"""Names that two classes may have, each with its reason."""

BUILD_WHEEL = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def run(*command: str, cwd: Path) -> None:
    """Run a command and show what it printed if it fails."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_package_and_its_metadata_state_one_version() -> None:
    assert mcutrain.__version__ == metadata.version("mcutrain")


@pytest.mark.parametrize(("package", "folder"), FOLDERS.items())
def test_an_editable_install_finds_the_folder_by_its_package_name(
    package: str, folder: str
) -> None:
    assert Path(str(resources.files(package))) == REPOSITORY / folder


@pytest.mark.slow
def test_a_wheel_holds_every_file_of_every_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in REPOSITORY.iterdir():
        if path.is_file():
            shutil.copy(path, source)
    expected = set()
    for package, folder in FOLDERS.items():
        leave = shutil.ignore_patterns(*LEFTOVERS)
        copy = Path(shutil.copytree(REPOSITORY / folder, source / folder, ignore=leave))
        files = [path for path in copy.rglob("*") if path.is_file()]
        expected |= {f"{package}/{path.relative_to(copy).as_posix()}" for path in files}

    run(sys.executable, "-c", BUILD_WHEEL, str(tmp_path), cwd=source)

    (wheel,) = tmp_path.glob("mcutrain-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_import_directions_hold() -> None:
    lint_imports = Path(sys.executable).parent / "lint-imports"
    if not lint_imports.exists():
        pytest.skip("import-linter is absent: pip install -e '.[dev]'")
    run(str(lint_imports), "--no-cache", cwd=REPOSITORY)


def private_modules_from_elsewhere(package: str, source: str) -> list[str]:
    """The modules with an underscore that a module of `package` imports from other packages."""
    found = []
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.ImportFrom):
            continue
        module = statement.module or ""
        names = [module, *(f"{module}.{alias.name}" for alias in statement.names)]
        for name in names:
            parent, _, last = name.rpartition(".")
            is_private = last.startswith("_") and parent != package
            if is_private and Path(REPOSITORY, *parent.split("."), f"{last}.py").is_file():
                found.append(name)
    return found


@pytest.mark.slow
def test_no_package_imports_a_private_module_of_another() -> None:
    found = {
        str(path): private
        for path in (REPOSITORY / "mcutrain").rglob("*.py")
        if (
            private := private_modules_from_elsewhere(
                ".".join(path.parent.relative_to(REPOSITORY).parts), path.read_text("utf-8")
            )
        )
    }
    assert found == {}
    source = "from mcutrain.data._npz import load\nfrom mcutrain.data import _folders"
    assert len(private_modules_from_elsewhere("mcutrain.cli", source)) == 2


def modules_by_class(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Names that classes of several modules have, with these modules. sources: by module."""
    found = defaultdict(list)
    for module, source in sorted(sources.items()):
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.ClassDef):
                found[statement.name].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


@pytest.mark.slow
def test_a_class_has_a_name_of_its_own() -> None:
    paths = [
        path for folder in ("mcutrain", "host") for path in (REPOSITORY / folder).rglob("*.py")
    ]
    sources = {str(path.relative_to(REPOSITORY)): path.read_text("utf-8") for path in paths}
    found = modules_by_class(sources)
    assert {name: modules for name, modules in found.items() if name not in TWICE} == {}
    assert found.keys() == TWICE.keys(), "an exception that is none any more"
    twins = {
        "a": "class Part:\n    pass",
        "b": "x = 1\nclass Part(tuple): ...",
        "c": "class C: ...",
    }
    assert modules_by_class(twins) == {"Part": ["a", "b"]}
