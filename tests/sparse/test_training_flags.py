"""What `select --finalists` trains on is what the flags of the data say."""

import numpy as np

from mcutrain import demo
from mcutrain.cli.finalists import SchemeTraining
from mcutrain.cli.samples import DataSource
from mcutrain.functions.run_options import normalization_of
from mcutrain.simulation import RunSettings


def test_share_and_normalization_reach_the_runs(tmp_path):
    x = np.full((40, 28, 28, 1), 128, np.uint8)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(40) % 10)
    given = normalization_of((0.3,), (0.4,))
    source = DataSource(tmp_path / "data.npz", None, None, 0.5, given)
    training = SchemeTraining(source, RunSettings(1, 0.01), 8, 2, None)
    graph = demo.network()
    split = training.some(graph, None)
    assert (len(split.train), len(split.test)) == (8, 20)
    lesson = training.lesson(demo.MODEL, None, split)
    assert (lesson.normalization, lesson.options.accumulate) == (given, 2)
    assert given is not None
