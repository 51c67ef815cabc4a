"""Trains a small keyword network on many words, for benchmarks/taught_word.py to teach another one.

    .venv/bin/python benchmarks/many_words.py hear --words FOLDER --noise FOLDER -o heard.npz
    python benchmarks/many_words.py train heard.npz -o net.onnx       # where PyTorch is installed
    .venv/bin/python benchmarks/many_words.py quantize net.onnx heard.npz -o net.tflite
    .venv/bin/python benchmarks/taught_word.py … --model net.tflite --known net.npz

The words and people are those of taught_word.py that its table does not test: half of each. hear
says each utterance in eight ways: another loudness, up to a quarter of a second earlier or later,
between other words, with coloured noise or talk behind it, and makes the device's MFCCs of it.
Noise alone is a class, too. Two people are kept to judge by. train is Adam on a network of the size
of kws_ref_model, with a layer of 64 features behind its mean; an epoch takes half a minute of one
core. quantize also writes what the network knows at the desk: 60 windows of each word.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
RATE, VERSIONS, SEED, JUDGED = 16_000, 8, 3, 2
CHANNELS, BATCH, EPOCHS, RATE_MOST = 64, 128, 14, 4e-3
FRAMES, HOPS = 49, 50


class Room:
    """What is heard beside a word."""

    def __init__(self, said: list[Array], samples: int) -> None:
        self.random, self.said, self.samples = np.random.default_rng(SEED), said, samples

    def noise(self) -> Array:
        """Of a drawn colour, with a mean square of 1."""
        colour = self.random.uniform(0, 1.2)
        spectrum = np.fft.rfft(self.random.standard_normal(self.samples))
        spectrum /= np.maximum(1, np.arange(len(spectrum))) ** colour
        found = np.fft.irfft(spectrum, self.samples)
        return found / np.sqrt((found**2).mean())

    def _other(self) -> Array:
        return self.said[self.random.integers(len(self.said))]

    def _talk(self) -> Array:
        found = sum(np.resize(self._other(), self.samples) for _ in range(4))
        return found / (np.sqrt((found**2).mean()) + 1)

    def window(self, word: Array) -> Array:
        """A word as it may be heard, int16."""
        random, begin, end = self.random, RATE, RATE + len(word)
        sound = np.zeros(3 * RATE)
        sound[begin:end] += word
        if random.random() < 0.4:
            other = self._other()
            sound[max(begin - len(other), 0) : begin] += other[-begin:]
        if random.random() < 0.4:
            other = self._other()
            sound[end : end + len(other)] += other[: 3 * RATE - end]
        first = begin + int(random.integers(-RATE // 4, RATE // 4 + 1))
        first = max(0, min(first, 3 * RATE - self.samples))
        heard = sound[first : first + self.samples] * 10 ** (random.uniform(-12, 6) / 20)
        if random.random() < 0.8:
            level = (np.sqrt((word**2).mean()) + 1) * 10 ** (-random.uniform(5, 40) / 20)
            heard = heard + (self._talk() if random.random() < 0.3 else self.noise()) * level
        heard = heard + self.noise() * random.uniform(0, 100)
        return np.clip(np.rint(heard), -32768, 32767).astype(np.int16)

    def alone(self) -> Array:
        """Noise, int16."""
        heard = self.noise() * 10 ** self.random.uniform(1, 3.3)
        return np.clip(np.rint(heard), -32768, 32767).astype(np.int16)


def hear(words: Path, noise: Path, output: Path) -> None:
    """Write features x (n, 49, 10), classes y and people p; -1 is nobody."""
    from taught_word import Recordings

    from mcutrain.frontends import parse

    part = Recordings.parts(words, noise, 0)[0]
    said = [
        (part.words.index(word), part.people.index(person), sound.astype(np.float64))
        for word in part.words
        for person in part.people
        for sound in part.said(word, person)
    ]
    front = parse("mfcc", (FRAMES, 10))
    room = Room([sound for _, _, sound in said], front.input_shape[0])
    windows = [room.window(sound) for _, _, sound in said for _ in range(VERSIONS)]
    windows += [room.alone() for _ in range(100 * VERSIONS)]
    y = [word for word, _, _ in said for _ in range(VERSIONS)] + [20] * 100 * VERSIONS
    p = [person for _, person, _ in said for _ in range(VERSIONS)] + [-1] * 100 * VERSIONS
    x = np.concatenate([front.real(np.stack(windows[i : i + 64])) for i in range(0, len(y), 64)])
    np.savez(output, x=x, y=np.array(y), p=np.array(p))


def train(heard: Path, output: Path) -> None:
    """Write the network as .onnx, and print how it tells the words of the people who are kept."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with np.load(heard) as arrays:
        x = torch.tensor(arrays["x"].reshape(-1, 1, FRAMES, 10))
        y, p = torch.tensor(arrays["y"]), arrays["p"]
    is_judged = torch.tensor((p >= 0) & (p < JUDGED))
    training, judged = torch.where(~is_judged)[0], torch.where(is_judged)[0]
    mean, std = x.mean((0, 1, 2)), x.std((0, 1, 2))

    def separable() -> list[Any]:
        depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS, bias=False)
        pointwise = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        layers = [(conv, nn.BatchNorm2d(CHANNELS), nn.ReLU()) for conv in (depthwise, pointwise)]
        return [layer for three in layers for layer in three]

    first = nn.Conv2d(1, CHANNELS, (10, 4), stride=2, padding=(4, 1), bias=False)
    body = [first, nn.BatchNorm2d(CHANNELS), nn.ReLU()]
    body += [layer for _ in range(4) for layer in separable()]
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, CHANNELS), nn.ReLU()]
    net = nn.Sequential(*body, *pooled, nn.Dropout(0.2), nn.Linear(CHANNELS, int(y.max()) + 1))
    steps = len(training) // BATCH
    adam = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(adam, RATE_MOST, total_steps=EPOCHS * steps)
    for epoch in range(EPOCHS):
        net.train()
        for some in training[torch.randperm(len(training))][: steps * BATCH].view(-1, BATCH):
            batch = x[some]
            for i in range(0, BATCH, 2):  # a gap in time
                at = int(torch.randint(0, 45, ()))
                batch[i, :, at : at + int(torch.randint(1, 8, ()))] = mean
            batch[..., 0] += 4 * torch.randn(BATCH, 1, 1)  # another loudness
            scores = net((batch - mean) / std)
            loss = nn.functional.cross_entropy(scores, y[some], label_smoothing=0.1)
            adam.zero_grad()
            loss.backward()
            adam.step()
            rates.step()
        net.eval()
        with torch.no_grad():
            told = torch.cat([net((x[i] - mean) / std).argmax(1) for i in judged.split(500)])
        right = 100 * (told == y[judged]).float().mean().item()
        print(f"epoch {epoch + 1}: {right:.1f} % of the people who are kept", flush=True)

    class Whole(nn.Module):
        """From features as the front end makes them."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, features: Any) -> Any:
            return self.net((features - mean) / std)

    names = {"input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(Whole().eval(), (x[:1],), str(output), dynamo=False, **names)


def quantize(model: Path, heard: Path, output: Path) -> None:
    """Write the int8 network, and beside it an .npz file of inputs that it knows."""
    import mcutrain
    from mcutrain.data import quantize_input

    random = np.random.default_rng(0)
    with np.load(heard) as arrays:
        x, y, p = arrays["x"].reshape(-1, FRAMES, 10), arrays["y"], arrays["p"]
    some = x[random.permutation(len(x))[:400], np.newaxis]
    made = mcutrain.quantize(model, some, output, samples=400)
    print(f"{made.snr_db:.1f} dB at the end")
    x_type = next(iter(made.graph.types(made.graph.inputs)))
    last, is_judged = y.max(), (p >= 0) & (p < JUDGED)

    def drawn(count: int, of: Array) -> Array:
        return np.concatenate(
            [random.permutation(np.flatnonzero((y == c) & of))[:count] for c in range(last + 1)]
        )

    known, judged = drawn(60, ~is_judged), drawn(60, is_judged | (y == last))
    count = min(len(known), len(judged))
    both = np.empty(2 * count, np.int64)  # taught_word.py knows every other one, and asks the rest
    both[::2], both[1::2] = (random.permutation(i)[:count] for i in (known, judged))
    codes = quantize_input(x[both], scale=x_type.scale, zero_point=x_type.zero_point)
    np.savez(output.with_suffix(".npz"), x=codes.reshape(-1, *x_type.shape[1:]), y=y[both])


def main() -> None:
    """Do one of the three parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(required=True)
    for function, files in ((hear, ()), (train, ("heard",)), (quantize, ("model", "heard"))):
        part = parts.add_parser(function.__name__, help=function.__doc__)
        part.set_defaults(function=function)
        for file in files:
            part.add_argument(file, type=Path)
        for folder in () if files else ("words", "noise"):
            part.add_argument(f"--{folder}", type=Path, required=True)
        part.add_argument("-o", "--output", type=Path, required=True)
    arguments = vars(parser.parse_args(sys.argv[1:]))
    arguments.pop("function")(**arguments)


if __name__ == "__main__":
    main()
