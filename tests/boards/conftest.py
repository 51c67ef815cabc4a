"""Where the boards' projects are built: one folder for all test processes."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def projects_root(common_folder: Path) -> Path:
    root = common_folder / "boards"
    root.mkdir(exist_ok=True)
    return root
