"""compare --loss: networks that reproduce their input, compared by how well they tell anomalies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.formats import write
from tests.cli.conftest import Run
from tests.simulation.autoencoders import dense, normal

LEARN = ("--epochs", 1, "--lr", 0.3)
FLAGS = (*LEARN, "--seeds", 1, "--jobs", 1)


@pytest.fixture
def autoencoder(run: Run) -> Run:
    """The commands, beside a model and normal samples, with anomalies among those of the test."""
    graph = dense()
    write(graph, Path("auto.onnx"))
    seen, unseen = normal(graph, 60), normal(graph, 20, seed=1)
    strange = np.random.default_rng(2).permutation(unseen.ravel()).reshape(unseen.shape)
    tests = np.concatenate((unseen, strange))
    np.savez("sounds.npz", x_train=seen, x_test=tests, y_test=np.repeat([0, 1], 20))
    np.savez("unlabelled.npz", x=seen)
    return run


def test_rows_have_the_auc_that_simulate_finds(autoencoder: Run) -> None:
    files = ("auto.onnx", "--data", "sounds.npz")
    facts = autoencoder("compare", *files, "--loss", "mse", *FLAGS, "--json").json
    assert {row["measure"] for row in facts["rows"]} == {"AUC"}
    alone = autoencoder("simulate", *files, "--scheme", "head", *LEARN, "--json").json
    head = next(row for row in facts["rows"] if row["name"] == "head only")
    assert head["accuracy"] == alone["auc"]
    assert head["before"] == [alone["auc_before"]]
    printed = autoencoder("compare", *files, *FLAGS)  # --loss auto knows it
    assert printed.out.split()[:4] == ["trained", "scheme", "lr", "AUC"]
    assert f"{alone['auc']:.4f}" in printed.out


def test_what_cannot_be_compared_is_a_sentence(autoencoder: Run) -> None:
    command = ("compare", "auto.onnx", "--data", "unlabelled.npz")
    assert "y_test of 0 and 1" in autoencoder(*command, "--loss", "mse", *FLAGS).sentence
    no_labels = autoencoder(*command, "--loss", "cross-entropy", *FLAGS)
    assert "no labels" in no_labels.sentence
    few = ("--ways", 2, "--shots", 2)
    assert "an episode learns classes" in autoencoder(*command, "--loss", "mse", *few).sentence
