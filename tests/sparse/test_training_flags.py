"""What `select --finalists` trains on is what the options of the data say."""

import numpy as np

from mcutrain import demo
from mcutrain.data import Normalization
from mcutrain.functions.choosing import Choice
from mcutrain.functions.listener import SILENT
from mcutrain.functions.run_options import SchemeReading, SelectOptions, TrainingOptions
from mcutrain.functions.selecting import SchemeTrials
from tests.selection.networks import contributions


def test_share_and_normalization_reach_the_runs(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (40, 28, 28, 1), np.uint8)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(40) % 10)
    reading = SchemeReading(test_share=0.5, mean=(0.0,), std=(1.0,), samples=8)
    learning = TrainingOptions(epochs=1, learning_rate=0.01)
    trials = SchemeTrials(tmp_path / "data.npz", learning, reading)
    found = contributions(demo.network(), np.random.default_rng(7), (1.0,))
    choice = Choice.of(demo.MODEL, found, SelectOptions(accumulate=2), builds=False)
    fitted = trials.some(choice, SILENT)
    assert (len(fitted.split.train), len(fitted.split.test)) == (8, 20)
    lesson = trials.lesson(choice, fitted)
    assert lesson.normalization == Normalization((0.0,), (1.0,))
    assert (lesson.options.accumulate, lesson.settings.epochs) == (2, 1)
