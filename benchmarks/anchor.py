"""Three published networks on eight public data sets in the device's integers, beside the papers.

    .venv/bin/python benchmarks/anchor.py --data DIR --shared ../shared --out anchor.json

mcunet-5fps, mbv2-w0.35 and proxyless-w0.3 get a new head and learn each data set that is found: the
head alone, the published 49 KB and 100 KB schemes (of mbv2-w0.35 49 and 99, of proxyless-w0.3 49
and 98), and what `analyze --by gradient` and `select` choose at the 100 KB scheme's bytes of SRAM.
int8, batch 1, no momentum: the generated C that a chip runs, by mcutrain.simulate. 50 epochs (VWW
10), as Lin et al. have; no augmentation, so that the frozen front is computed once, or --flip. Only
training samples, or the validation part, choose rates and schemes. Published numbers stand beside
ours with their conditions (published.py has the sources).

DIR has an entry for each data set: an .npz file, or a folder with a folder of images per class in
train/, test/ and perhaps val/ (docs/data.md). Its name, without signs and capitals, is one of

    Cars      cars, cars196, stanford_cars            CF10   cf10, cifar10
    Flowers   flowers, flowers102, oxford_flowers_102 CF100  cf100, cifar100
    Pets      pets, oxford_pets, oxford_iiit_pet      CUB    cub, cub200, CUB_200_2011
    VWW       vww, visual_wake_words, vww-s256        Food   food, food101

--sets takes some of them, and NAME=PATH for data of your own. Where DIR has no CIFAR-10, the 10,000
and 2,000 images of it in the shared folder are taken, and named as a subset.

--out keeps every trained cell under a digest of all that it depends on: program, network, samples,
scheme, seed, settings. The same command continues after Ctrl-C, which loses what is being trained.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import published
from mcutrain_host.errors import HostError
from mcutrain_host.files import write_whole
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import mcutrain
from mcutrain.analysis.problem import MOST_SAMPLES
from mcutrain.data import InputOrder, Split
from mcutrain.errors import ArgumentError, DataError, McutrainError, some_of
from mcutrain.ir.digest import arrays_digest
from mcutrain.runs.sample_reading import load_data, model_input
from mcutrain.runs.watch import Watch

NETWORKS = {
    "mcunet-5fps": {"49kb": "mcunet-5fps-49kb", "100kb": "mcunet-5fps-100kb"},
    "mbv2-w0.35": {"49kb": "mbv2-w0.35-49kb", "100kb": "mbv2-w0.35-99kb"},
    "proxyless-w0.3": {"49kb": "proxyless-w0.3-49kb", "100kb": "proxyless-w0.3-98kb"},
}
"""The schemes by the names of this script; all have `head` and `selected`, too."""
HEAD, SELECTED = "head", "selected"
SCHEMES = (HEAD, "49kb", "100kb", SELECTED)
SUBSET = "data/cifar10_10k2k.npz"
CODE = ("*.py", "*.c", "*.h", "*.j2", "*.toml")
INTERRUPTED = 130
KNOWN = {known.key: known for known in published.SETS}
Values = dict[str, Any]


@dataclass(frozen=True)
class Course:
    """How all cells are trained. epochs: None as published; rate: per sample, None to find one.

    head_rate: what the head's rate is multiplied by; None leaves it to the scheme. samples,
    test_samples: how many are drawn of each part; None is all.
    """

    epochs: int | None = None
    rate: float | None = None
    head_rate: float | None = None
    flip: bool = False
    samples: int | None = None
    test_samples: int | None = None


@dataclass(frozen=True)
class Place:
    """A data set on this disk. key: of published.SETS, "" for one of the user's own."""

    title: str
    path: Path
    key: str = ""

    def epochs(self, course: Course) -> int:
        """That are trained."""
        return course.epochs or (KNOWN[self.key].epochs if self.key else published.EPOCHS)


@dataclass(frozen=True)
class Loaded:
    """A data set in memory, as a network takes it; digests of all of it, and of what may choose."""

    split: Split
    digest: str
    choosing_digest: str

    @staticmethod
    def of(model: mcutrain.Graph, place: Place, course: Course) -> Loaded:
        """Seed 0 draws, and parts it if it has no test part: all seeds of a cell see the same."""
        split = load_data(
            model, place.path, 0.2, 0, None, None, course.samples, course.test_samples
        )
        if not split.is_labelled:
            raise DataError(f"{place.path} has no labels, which are what is learnt: save y, too")
        parts = [split.train, *([split.validation] if split.validation else [])]
        chosen = arrays_digest(*(array for part in parts for array in (part.x, part.y)))
        return Loaded(split, chosen + arrays_digest(split.test.x, split.test.y), chosen)


class Results:
    """Cells and selections in a JSON file, whole after each of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Values] = {}
        if path.exists():
            try:
                self._values = dict(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError) as error:
                raise ArgumentError(
                    f"{path} holds no results of this script: name another --out, or delete it"
                ) from error

    def get(self, facts: Values) -> Values | None:
        """What was found under these conditions, if it was."""
        return self._values.get(_key(facts))

    def put(self, facts: Values, found: Values) -> Values:
        """Keep it."""
        self._values[_key(facts)] = {"of": facts, **found}
        text = json.dumps(self._values, indent=1, ensure_ascii=False) + "\n"
        try:
            write_whole(self._path, text.encode())
        except OSError as error:
            raise ArgumentError(
                f"{self._path} cannot be written ({error.strerror}): name another --out"
            ) from error
        return self._values[_key(facts)]


def _key(facts: Values) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def code_digest() -> str:
    """Digest of the program that trains and chooses."""
    import mcutrain_firmware
    import mcutrain_host
    import mcutrain_schemes
    import mcutrain_templates

    found = hashlib.sha256()
    for package in (
        mcutrain,
        mcutrain_host,
        mcutrain_firmware,
        mcutrain_schemes,
        mcutrain_templates,
    ):
        root = Path(next(iter(package.__path__)))
        for path in sorted({path for pattern in CODE for path in root.rglob(pattern)}):
            found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()


def find_sets(folder: Path | None, wanted: Sequence[str], shared: Path) -> list[Place]:
    """The data sets that are there, in the order of the papers, the user's own behind them.

    Raises ArgumentError for names that mean none, or two entries for one set.
    """
    own = [name for name in wanted if "=" in name]
    keys = [published.plain(name) for name in wanted if "=" not in name]
    by_name = {name: known.key for known in published.SETS for name in (known.key, *known.names)}
    if unknown := [key for key in keys if key not in by_name]:
        raise ArgumentError(
            f"--sets: {some_of(unknown)} is none of {', '.join(KNOWN)}: take one of these, or "
            "NAME=PATH for data of your own"
        )
    chosen = {by_name[key] for key in keys} or (set() if own else set(KNOWN))
    wanted_sets = [known for known in published.SETS if known.key in chosen]
    entries = {known: _entry(folder, known) for known in wanted_sets}
    places = [Place(known.title, path, known.key) for known, path in entries.items() if path]
    if "cf10" in chosen - {place.key for place in places} and (shared / SUBSET).exists():
        places.append(Place("CF10 subset", shared / SUBSET, "cf10"))
        places.sort(key=lambda place: published.KEYS.index(place.key))
    for name, _, path in (text.partition("=") for text in own):
        if not name or not path:
            raise ArgumentError(f"--sets {name}={path}: give NAME=PATH")
        places.append(Place(name, Path(path)))
    if len({place.title for place in places}) < len(places):
        raise ArgumentError("--sets names a data set twice: give each another NAME")
    return places


def _entry(folder: Path | None, known: published.KnownSet) -> Path | None:
    """Find the file or folder that is named as this data set."""
    if folder is None:
        return None
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ArgumentError(
            f"--data {folder} cannot be read ({error.strerror}): name the folder of the data sets"
        ) from error
    found = [path for path in entries if published.plain(_name(path)) in known.names]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise ArgumentError(f"--data {folder} has {names}, which are both {known.title}: keep one")
    return found[0] if found else None


def _name(path: Path) -> str:
    """Name of a data set: the file name without .npz; "" for other files."""
    if path.is_dir():
        return path.name
    return path.stem if path.suffix == ".npz" else ""


def missing(places: Sequence[Place], wanted: Sequence[str]) -> list[str]:
    """A line for each wanted data set that is not there, with where its authors publish it."""
    keys = {published.plain(name) for name in wanted if "=" not in name}
    if wanted and not keys:
        return []
    titles = {place.title for place in places}
    lines = []
    for known in published.SETS:
        if known.title not in titles and (not keys or keys & {known.key, *known.names}):
            instead = (
                f"; {known.title} subset is taken" if f"{known.title} subset" in titles else ""
            )
            name = known.names[-1]
            lines.append(f"not found: {known.title} ({name}), published at {known.where}{instead}")
    return lines


def scheme_of(toml: str) -> mcutrain.UpdateScheme:
    """A scheme from the text of its file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scheme.toml"
        path.write_text(toml, encoding="utf-8")
        return mcutrain.parse_scheme(path)


@dataclass(frozen=True)
class Choice:
    """What is trained. text: a shipped scheme's name, or the TOML of a selected one."""

    text: str
    scheme: mcutrain.UpdateScheme


@dataclass(frozen=True)
class Bench:
    """What all cells of a network and a data set share."""

    network: str
    model: Path
    place: Place
    loaded: Loaded
    course: Course
    code: str

    @property
    def classes(self) -> int:
        """Outputs of the new head."""
        return len(self.loaded.split.names)

    @property
    def is_whole(self) -> bool:
        """Whether all is trained on, and as many images tested on as in the authors' test part."""
        if not self.place.key:
            return True
        is_drawn = self.course.samples is not None or self.course.test_samples is not None
        images = KNOWN[self.place.key].test_images
        return not is_drawn and images in (None, len(self.loaded.split.test))

    def _facts(self, digest: str) -> Values:
        return {
            "code": self.code,
            "network": self.network,
            "model": hashlib.sha256(self.model.read_bytes()).hexdigest(),
            "samples": digest,
            "epochs": self.place.epochs(self.course),
            "learning_rate": self.course.rate,
            "flip": self.course.flip,
        }

    def choice(self, name: str, results: Results, tell: Callable[[int, int], None]) -> Choice:
        """What a scheme of this script is; it is selected now if it was not before."""
        if name == SELECTED:
            samples, epochs = self._analysed()
            facts = {**self._facts(self.loaded.choosing_digest), "classes": self.classes}
            facts |= {"analysed": samples, "analysis_epochs": epochs}
            kept = results.get(facts) or results.put(facts, {"scheme": self._select(tell)})
            text, scheme = kept["scheme"], scheme_of(kept["scheme"])
        else:
            text = name if name == HEAD else NETWORKS[self.network][name]
            scheme = mcutrain.parse_scheme(text)
        factor = self.course.head_rate
        return Choice(text, scheme if factor is None else replace(scheme, head_rate=factor))

    def _analysed(self) -> tuple[int, int]:
        """Samples that an analysis trains on, and its passes: as many steps as a cell has."""
        split = self.loaded.split
        most = len(split.train) if split.validation else len(split.train) // 2
        samples = max(min(MOST_SAMPLES, most), 1)
        steps = self.place.epochs(self.course) * len(split.train)
        return samples, max(round(steps / samples), 1)

    def _select(self, tell: Callable[[int, int], None]) -> str:
        """The TOML of what fits the 100 KB scheme's SRAM; from samples that may choose."""
        largest = NETWORKS[self.network]["100kb"]
        step = mcutrain.prepare(self.model, largest, classes=self.classes)
        samples, epochs = self._analysed()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cells say the same of these samples
            found = mcutrain.analyze(
                self.model,
                self.loaded.split,
                by="gradient",
                classes=self.classes,
                samples=samples,
                epochs=epochs,
                learning_rate=self.course.rate,
                progress=lambda done: tell(done.done, done.total),
            )
        return mcutrain.select(self.model, found, sram=step.plan.sram_bytes).scheme.to_toml()

    def facts(self, choice: Choice, seed: int) -> Values:
        """All that a cell depends on."""
        facts = self._facts(self.loaded.digest)
        factor = self.course.head_rate
        return {**facts, "scheme": choice.text, "head_rate": factor, "seed": seed}

    def train(self, choice: Choice, seed: int, tell: Callable[[int, int], None]) -> Values:
        """A cell. tell: called with steps done, of how many."""
        course, begin = self.course, time.perf_counter()
        watch = Watch(training=lambda state: tell(state.trained, state.total))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = mcutrain.simulate(
                self.model,
                self.loaded.split,
                choice.scheme,
                classes=self.classes,
                epochs=self.place.epochs(course),
                learning_rate=course.rate,
                seed=seed,
                flip=course.flip,
                watch=watch,
            )
        return {
            "accuracy": result.accuracy,
            "before": result.before,
            "sram_bytes": result.sram_bytes,
            "learning_rate": result.learning_rate,
            "seconds": round(time.perf_counter() - begin, 1),
            "notes": sorted({str(warning.message) for warning in said}),
        }


@dataclass(frozen=True)
class Row:
    """What a network reached on a data set by a scheme; cells: of its seeds.

    parts: how many samples to train on, to test on, and classes. is_whole: see Bench.
    """

    network: str
    place: Place
    scheme: str
    parts: tuple[int, int, int]
    is_whole: bool
    cells: tuple[Values, ...]

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each seed, in percent."""
        return [100 * cell["accuracy"] for cell in self.cells]


def with_error(values: Sequence[float]) -> str:
    """Mean and its standard error; of one value there is none."""
    if len(values) < 2:
        return f"{values[0]:.1f} (1 seed)" if values else ""
    return f"{mean(values):.1f} ± {stdev(values) / len(values) ** 0.5:.1f}"


def train_all(
    bench: Bench, options: argparse.Namespace, results: Results, bar: Progress, tasks: Sequence[Any]
) -> list[Row]:
    """The rows of a network and a data set, what is missing trained."""
    all_cells, steps = tasks
    title = escape(f"{bench.network}, {bench.place.title}")

    def tell(done: int, of: int) -> None:
        bar.update(steps, completed=done, total=of)

    bar.update(steps, description=f"{title}: selecting", total=None)
    chosen = {name: bench.choice(name, results, tell) for name in options.schemes}
    wanted = [(name, seed) for seed in range(options.seeds) for name in options.schemes]
    todo = [(n, s) for n, s in wanted if results.get(bench.facts(chosen[n], s)) is None]
    bar.update(all_cells, advance=len(wanted) - len(todo))
    bar.update(steps, description=title, total=None)
    for (name, seed), found in trained(bench, chosen, todo, options.jobs, tell):
        results.put(bench.facts(chosen[name], seed), found)
        bar.update(all_cells, advance=1)
        bar.console.print(
            f"{title}, {name}, seed {seed}: {100 * found['accuracy']:.1f} %, "
            f"{found['seconds']:.0f} s"
        )
        for note in found["notes"]:
            bar.console.print(f"  note: {note}", markup=False)
    split = bench.loaded.split
    parts = (len(split.train), len(split.test), bench.classes)
    seeds = range(options.seeds)
    kept = {n: [results.get(bench.facts(s, seed)) for seed in seeds] for n, s in chosen.items()}
    return [
        Row(bench.network, bench.place, name, parts, bench.is_whole, tuple(filter(None, cells)))
        for name, cells in kept.items()
    ]


def trained(
    bench: Bench,
    choices: Mapping[str, Choice],
    cells: Sequence[tuple[str, int]],
    jobs: int,
    tell: Callable[[int, int], None],
) -> Iterator[tuple[tuple[str, int], Values]]:
    """Cells as they are done; with one process they tell how far they are."""
    if jobs == 1 or len(cells) < 2:
        for name, seed in cells:
            yield (name, seed), bench.train(choices[name], seed, tell)
        return
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_trained_apart)(bench, choices[name], name, seed) for name, seed in cells
    )


def _trained_apart(
    bench: Bench, choice: Choice, name: str, seed: int
) -> tuple[tuple[str, int], Values]:
    """In a process of its own."""
    return (name, seed), bench.train(choice, seed, lambda done, of: None)


def table(network: str, rows: Sequence[Row]) -> tuple[Table, set[str]]:
    """Ours and the published numbers of a network, and the notes that it refers to."""
    of_network = [result for result in published.RESULTS if result.network == network]
    columns = ("data set", "trained", "SRAM", "top-1 %", "rate", *published.SOURCES)
    printed = Table(*columns, title=network)
    notes: set[str] = set()

    def add(data: str, title: str, scheme: str, ours: Sequence[str]) -> None:
        beside = []
        for source in published.SOURCES:
            same = [r for r in of_network if r.source == source and r.scheme == scheme]
            texts = [(r.text(data), r.note) for r in same if r.text(data)]
            notes.update(note for _, note in texts)
            beside.append(", ".join(text for text, _ in texts) or "–")
        printed.add_row(title, scheme, *ours, *beside)

    by_place: dict[Place, list[Row]] = {}
    for row in rows:
        by_place.setdefault(row.place, []).append(row)
    for place, own in by_place.items():
        data, known = place.key, {row.scheme for row in own}
        train, test, classes = own[0].parts
        sizes = f"{train:,} / {test:,}, {classes} classes{'' if own[0].is_whole else ' *'}"
        for row in own:
            title = f"{escape(place.title)}\n{sizes}" if row is own[0] else ""
            add(data, title, row.scheme, _own_cells(row))
        for result in of_network:
            if result.scheme not in known and data in result.accuracy:
                add(data, "", result.scheme, ("", "", ""))
        printed.add_section()
    for title, keys in published.MEANS.items() if any(place.key for place in by_place) else ():
        for scheme, ours in _means(by_place, keys, of_network, title).items():
            add(title, title, scheme, ("", ours, ""))
    return printed, notes


def _own_cells(row: Row) -> tuple[str, str, str]:
    """SRAM, accuracy and rates."""
    if not row.cells:
        return "", "", ""
    sram = {cell["sram_bytes"] for cell in row.cells}
    rates = {f"{cell['learning_rate']:.3g}" for cell in row.cells}
    most = " to ".join(f"{n:,}" for n in sorted({min(sram), max(sram)}))
    return most, with_error(row.accuracies), ", ".join(sorted(rates))


def _means(
    by_place: Mapping[Place, Sequence[Row]],
    keys: Sequence[str],
    of_network: Sequence[published.Published],
    title: str,
) -> dict[str, str]:
    """Scheme → our mean over these data sets, "" where one is missing; those that have one."""
    found = {r.scheme: "" for r in of_network if title in r.accuracy}
    ours: dict[str, dict[str, float]] = {}
    for place, rows in by_place.items():
        for row in rows:
            if place.key in keys and row.is_whole and row.cells:
                ours.setdefault(row.scheme, {})[place.key] = mean(row.accuracies)
    return found | {
        scheme: f"{mean(values.values()):.1f}"
        for scheme, values in ours.items()
        if len(values) == len(keys)
    }


def print_all(console: Console, rows: Sequence[Row], options: argparse.Namespace) -> None:
    """The tables, and what their signs mean."""
    notes: set[str] = set()
    for network in options.networks:
        printed, found = table(network, [row for row in rows if row.network == network])
        notes.update(found)
        console.print(printed)
    augmented = "flips" if options.flip else "no augmentation"
    seeds = "one seed" if options.seeds == 1 else f"mean of {options.seeds} seeds ± standard error"
    console.print(
        f"top-1 %: ours, int8, batch 1, no momentum, {augmented}; {seeds}. SRAM: arena and "
        "trainable state in bytes, without stack and firmware; KB in the name of a scheme is what "
        "its authors count beyond inference. Images: training / test. *: not all of the authors' "
        "images, so beside numbers of other images. –: no number of it was found in the sources; "
        "for proxyless-w0.3 Lin et al. have a figure only.",
        markup=False,
    )
    for line in published.conditions(notes):
        console.print(line, markup=False)


def parsed() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with an entry for each data set")
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--sets", nargs="+", default=[], metavar="SET", help="or NAME=PATH")
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--seeds", type=_count, default=3)
    parser.add_argument("--epochs", type=_count, help="50, and 10 of VWW, by default")
    parser.add_argument("--lr", type=_rate, default=None, help="per sample, or auto: the default")
    parser.add_argument("--head-rate", type=_rate, help="factor on the head's rate")
    parser.add_argument("--flip", action="store_true", help="flip images at random: far slower")
    parser.add_argument("--samples", type=_count, help="training samples of each set; all")
    parser.add_argument("--test-samples", type=_count, help="test samples of each set; all")
    parser.add_argument("--jobs", type=_count, default=1, help="cells at once")
    parser.add_argument("--out", type=Path, default=Path("anchor.json"))
    return parser.parse_args()


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _rate(text: str) -> float | None:
    if text == "auto":
        return None
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return value


def run(options: argparse.Namespace, console: Console) -> None:
    """Train what is missing, and print the tables. Raises McutrainError."""
    shared = Path(options.shared)
    o = options
    course = Course(o.epochs, o.lr, o.head_rate, o.flip, o.samples, o.test_samples)
    places = find_sets(options.data, options.sets, shared)
    for line in missing(places, options.sets):
        console.print(line, markup=False)
    if not places:
        raise ArgumentError("none of the data sets was found: name their folder with --data")
    results, code, rows = Results(options.out), code_digest(), []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    total = len(options.networks) * len(places) * len(options.schemes) * options.seeds
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        tasks = (bar.add_task("cells", total=total), bar.add_task("", total=None))
        for place in places:
            known: dict[InputOrder, Loaded] = {}  # as networks of one input take it
            for network in options.networks:
                bar.update(tasks[1], description=f"reading {escape(place.title)}", total=None)
                path = shared / f"models/{network}.int8.tflite"
                graph = mcutrain.load(path)
                order = model_input(graph).known_order
                if order not in known:
                    known[order] = Loaded.of(graph, place, course)
                bench = Bench(network, path, place, known[order], course, code)
                rows += train_all(bench, options, results, bar, tasks)
    print_all(console, rows, options)


def main() -> None:
    """What a user can cause is a sentence and 2, Ctrl-C is 130."""
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        run(options, console)
    except (McutrainError, HostError) as error:
        print(f"anchor.py: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"anchor.py: stopped; {options.out} has what was done", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
