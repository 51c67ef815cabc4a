"""The documentation builds as a static site."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_site_builds_and_every_page_is_in_its_menu(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'mcutrain[docs]'")
    for name in ("mkdocs.yml", "docs"):
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copied(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", "site"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "not included in the" not in done.stderr
    assert (tmp_path / "site" / "architecture" / "index.html").is_file()
