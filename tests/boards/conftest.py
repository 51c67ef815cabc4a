"""Where the boards' projects are built: one folder for all test processes."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def projects_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    root = base / "boards"
    root.mkdir(exist_ok=True)
    return root
