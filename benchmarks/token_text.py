"""Text classifiers of token ids that meet a speaker with other words: before, after, float.

    PYTHONPATH=FOLDER_WITH_TORCH python benchmarks/token_text.py [--seeds 0 1 2] [--kinds bag]

A grammar makes the sentences, no public text does: eight commands, verbs (four groups of synonyms)
by objects (two groups), a word that turns the verb into its opposite if it stands before it, and
fillers. The speaker on the device says half of these words, the other half and "not" by words that
were fillers in the training, and the verb last. PyTorch trains two networks of 16 tokens and 256
rows: a mean of rows with two layers, and two layers of a transformer (BERT's, width 32, two heads).
mcutrain quantizes the exported files and trains by 600 sentences of the speaker in eight epochs at
--lr auto; 400 others are the test. Float: SGD of all weights but the embeddings, one sentence a
step, as many epochs, cosine rates; the best of three rates on a fifth of the sentences, which is
then learnt, too. Means and extremes over seeds, of network, sentences and order. Instructions: of a
training step, counted on the virtual mps2-an500 (Cortex-M7); SRAM and flash of its ELF.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mcutrain_host.build import build
from mcutrain_host.memory import linked_memory
from torch import nn

import mcutrain
from mcutrain.cost.counting import count_instructions
from mcutrain.target import load_target

ROWS, TOKENS, WIDTH, HEADS, CLASSES = 256, 16, 32, 2, 8
PAD, FIRST = 0, 1
WORDS = np.arange(2, ROWS)
SYNONYMS, EPOCHS, BOARD = 4, 8, "mps2-an500"
torch.set_num_threads(1)  # sums of several threads make other networks
SCHEMES = {"bag": ("head", "full"), "bert": ("head", "last:4", "full", "lora-fa:4")}
RATES = (0.003, 0.01, 0.03)


class Speaker:
    """Words for each verb and object, one for not, and the rest, which fill."""

    def __init__(self, words: np.ndarray, verb_last: bool) -> None:
        parts = words[: 6 * SYNONYMS].reshape(6, SYNONYMS).copy()
        self.verbs, self.objects, self.no = parts[:4], parts[4:], words[6 * SYNONYMS]
        self.verb_last = verb_last

    def says(self, rng: np.random.Generator, fillers: np.ndarray, count: int) -> Any:
        """Sentences (count, TOKENS) and their commands."""
        x, y = np.full((count, TOKENS), PAD), np.zeros(count, np.int64)
        for row, label in zip(x, range(count), strict=True):
            verb, what, turned = rng.integers(4), rng.integers(2), rng.random() < 0.3
            phrase = [rng.choice(self.verbs[verb ^ 1 if turned else verb])]
            phrase = [self.no, *phrase] if turned else phrase
            spare = list(rng.choice(fillers, rng.integers(2, 9)))
            noun = [rng.choice(self.objects[what])]
            order = [noun, spare[:2], phrase] if self.verb_last else [phrase, spare[:2], noun]
            cut = rng.integers(2, len(spare) + 1)
            said = [FIRST, *spare[2:cut], *(w for part in order for w in part), *spare[cut:]]
            row[: len(said)] = said
            y[label] = 2 * verb + what
        return x, y


class Bag(nn.Module):
    """The mean of rows, two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(ROWS, WIDTH)
        self.inner, self.head = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.inner(self.words(ids).mean(1))))


class Bert(nn.Module):
    """Rows, positions, a normalization, two layers of a transformer, the first token's pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(ROWS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        made = {"dropout": 0.0, "activation": "gelu", "batch_first": True}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, **made) for _ in range(2)
        )
        self.pooler, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(ids) + self.positions(torch.arange(TOKENS)[None]))
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


KINDS = {"bag": Bag, "bert": Bert}


def trained(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """Adam, batches of 64."""
    adam = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(20):
        for index in torch.randperm(len(x)).split(64):
            adam.zero_grad()
            nn.functional.cross_entropy(net(x[index]), y[index]).backward()
            adam.step()
    return net.eval()


def accuracy(net: nn.Module, data: Any) -> float:
    """In percent."""
    with torch.no_grad():
        return 100 * float((net(data[0]).argmax(1) == data[1]).double().mean())


def tuned(net: nn.Module, train: Any, rate: float) -> nn.Module:
    """A copy that SGD has taught, one sentence a step."""
    other = type(net)()
    other.load_state_dict(net.state_dict())
    frozen = ("words", "positions")
    weights = [p for name, p in other.named_parameters() if not name.startswith(frozen)]
    steps, done = EPOCHS * len(train[0]), 0
    for _ in range(EPOCHS):
        for i in torch.randperm(len(train[0])):
            loss = nn.functional.cross_entropy(other(train[0][i : i + 1]), train[1][i : i + 1])
            grads = torch.autograd.grad(loss, weights)
            now = rate * 0.5 * (1 + math.cos(math.pi * done / steps))
            with torch.no_grad():
                for w, g in zip(weights, grads, strict=True):
                    w -= now * g
            done += 1
    return other


def float_after(net: nn.Module, train: Any, test: Any) -> float:
    """Accuracy after the rate that does best on a fifth."""
    cut = len(train[0]) * 4 // 5
    first, last = ([part[s] for part in train] for s in (slice(cut), slice(cut, None)))
    best = max(RATES, key=lambda rate: accuracy(tuned(net, first, rate), last))
    return accuracy(tuned(net, train, best), test)


def measured(step: mcutrain.TrainingStep, folder: Path) -> tuple[int, int, int]:
    """SRAM, flash, instructions of a training step on the board."""
    step.firmware(load_target(BOARD)).write(folder)
    build(folder)
    memory = linked_memory(folder)
    counts = count_instructions(step, BOARD, folder)
    assert memory is not None
    return memory.linked_bytes, memory.flash_bytes, sum(counts.values())


def run_seed(
    seed: int, folder: Path, kinds: Sequence[str]
) -> Mapping[tuple[str, str], tuple[float, float]]:
    """Before and after, by network and what is trained."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    words = rng.permutation(WORDS)
    cut = 6 * SYNONYMS + 1
    here, there = Speaker(words, False), Speaker(words[cut:], True)
    for old, new in ((here.verbs, there.verbs), (here.objects, there.objects)):
        new[:, : SYNONYMS // 2] = old[:, : SYNONYMS // 2]
    x, y = here.says(rng, words[cut:].copy(), 6000)
    new_x, new_y = there.says(rng, words[2 * cut :], 1000)
    tensors = [torch.from_numpy(a) for a in (x, y, new_x, new_y)]
    train, test = (tensors[2][:600], tensors[3][:600]), (tensors[2][600:], tensors[3][600:])
    found = {}
    for name in kinds:
        kind = KINDS[name]
        net = trained(kind(), tensors[0][:5000], tensors[1][:5000])
        print(f"{name} {seed}: {accuracy(net, [t[5000:] for t in tensors[:2]]):.1f} % at home")
        found[name, "float"] = accuracy(net, test), float_after(net, train, test)
        print("  {} float: {:.1f} -> {:.1f}".format(name, *found[name, "float"]))
        path = folder / f"{name}{seed}.onnx"
        said = {"input_names": ["ids"], "output_names": ["y"], "dynamo": False}
        torch.onnx.export(net, torch.zeros((1, TOKENS), dtype=torch.int64), str(path), **said)
        graph = mcutrain.quantize(path, x[:300], folder / f"{name}{seed}.int8.onnx").graph
        split = {"data": (new_x[:600], new_y[:600]), "validation": (new_x[600:], new_y[600:])}
        for scheme in SCHEMES[name]:
            pet = scheme if "lora" in scheme else ""
            asked = {"pet": pet} if pet else {"scheme": scheme}
            done = mcutrain.simulate(graph, **split, **asked, epochs=EPOCHS, seed=seed)
            found[name, scheme] = 100 * done.before, 100 * done.accuracy
            print(
                f"  {name} {scheme}: {100 * done.before:.1f} -> {100 * done.accuracy:.1f}, "
                f"rate {done.learning_rate}"
            )
            if seed == 0:
                model, trains = graph, scheme
                if pet:
                    model = mcutrain.augment(graph, pet, split["data"]).graph
                    trains = "modules"
                step = mcutrain.prepare(model, trains)
                costs = measured(step, folder / f"{name}-{trains}")
                print(f"  {name} {scheme}: SRAM {costs[0]:,}, flash {costs[1]:,}, {costs[2]:,}")
    return found


def main() -> None:
    """Print a row for each network and scheme."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--kinds", choices=KINDS, nargs="+", default=list(KINDS))
    args, rows = parser.parse_args(), defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in args.seeds:
            for key, pair in run_seed(seed, Path(folder), args.kinds).items():
                rows[key].append(pair)
    for (name, scheme), pairs in rows.items():
        before, after = zip(*pairs, strict=True)
        means = f"{np.mean(before):.1f} | {np.mean(after):.1f}"
        print(f"| {name} | {scheme} | {means} ({min(after):.1f} to {max(after):.1f}) |")


if __name__ == "__main__":
    main()
