"""The Python package on a Raspberry Pi, emulated: what it learns there has this computer's bits.

benchmarks/emulated_pi.py downloads what that needs, and runs more of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import mcutrain
from benchmarks.emulated_pi import MODEL, Pi, packages, usual_folder, write_images

PI = Pi(usual_folder())
LEARN = (
    "import sys, mcutrain; mcutrain.watch(sys.argv[1], 'inbox', 'pi', 'head', replay=1, once=True)"
)


@pytest.mark.skipif(bool(PI.missing), reason=PI.missing)
def test_a_pi_learns_images_as_this_computer_does(tmp_path: Path) -> None:
    write_images(tmp_path / "inbox", 4)
    PI.run(tmp_path, packages(tmp_path / "packages"), ["-c", LEARN, str(MODEL)])
    found = mcutrain.watch(
        MODEL, tmp_path / "inbox", tmp_path / "here", "head", replay=1, once=True
    )
    assert found.steps == 7
    for name in ("state.mcts", "trained.tflite", "watch.json"):
        assert (tmp_path / "pi" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
