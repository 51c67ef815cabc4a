"""Parameter-efficient training in a word: modules, and the scheme that trains them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.modules.numbers import ModuleNumbers
from mcutrain.modules.put import augment, observed_tensors
from mcutrain.modules.spec import EXAMPLE, ModuleSpec, parse_modules
from mcutrain.sparse.scheme import RATE_FACTORS, UpdateScheme

HEAD = "linear"


@dataclass(frozen=True)
class Pet:
    """Which modules, none for biases or the classifier alone, and how many biases are trained.

    text: as it was given. biases: None is all, 0 none but those of modules. rate: of modules, as a
    scheme's module_rate; None is what the scheme says, or what is usual.
    """

    text: str
    specs: tuple[ModuleSpec, ...] = ()
    biases: int | None = 0
    rate: float | None = None

    def scheme(self, given: UpdateScheme) -> UpdateScheme:
        """Return what is trained besides what the scheme says."""
        if self.biases != 0 and given.linear_biases:
            raise SchemeError(
                f"scheme {given.name!r} trains biases of linear layers, and --pet {self.text!r} "
                "those of others, too: leave out one of the two"
            )
        depths = (given.bias_depth, self.biases)
        depth = None if None in depths else max(d for d in depths if d is not None)
        name = self.text if given.name == "head" else f"{self.text},{given.name}"
        modules = given.modules or bool(self.specs)
        rate = given.module_rate if self.rate is None else self.rate
        return replace(given, name=name, bias_depth=depth, modules=modules, module_rate=rate)

    def outline(self, graph: Graph) -> Graph:
        """The graph with modules of this size whose numbers mean nothing: for plans."""
        return self._put(graph, None)

    def again(self, graph: Graph, numbers: str) -> Graph:
        """The graph with modules as they were when numbers_of took their numbers.

        Raises SchemeError if they were modules of another graph.
        """
        known = ModuleNumbers.of_text(numbers)
        found = self._put(graph, known)
        known.check_end()
        return found

    def _put(self, graph: Graph, numbers: ModuleNumbers | None) -> Graph:
        if not self.specs:
            return graph
        names = observed_tensors(graph, self.specs)
        nothing = {name: np.zeros(graph.tensors[name].type.shape, np.int8) for name in names}
        return augment(graph, self.specs, nothing, numbers=numbers).graph


def parse_pet(text: str) -> Pet:
    """Parse what parse_modules reads, with bias, bias:K or linear (the classifier) among the kinds.

    rate:F among them is what the learning rate of modules is multiplied with.

    Raises SchemeError.
    """
    biases: int | None = 0
    rate: float | None = None
    left = []
    parts = _parts(text)
    for part in parts:
        match = re.fullmatch(r"bias(:([1-9]\d{0,3}))?", part)
        if match:
            biases = None if match[2] is None else int(match[2])
        elif part == "rate" or part.startswith("rate:"):
            rate = _rate(text, part)
        elif part.startswith("bias:"):
            raise SchemeError(f"{text!r}: bias:K trains the last K biases, as in bias:4")
        elif part.startswith(f"{HEAD}:"):
            raise SchemeError(f"{text!r}: {HEAD} takes no number: it is the whole classifier")
        elif part != HEAD:
            left.append(part)
    specs = parse_modules(",".join(left)) if left else ()
    if rate is not None and not specs:
        raise SchemeError(f"{text!r}: rate:F is of modules, and there are none: {EXAMPLE}")
    return Pet(text, specs, biases, rate)


def _parts(text: str) -> list[str]:
    """Split the words; none is empty, none is there twice. Raises SchemeError."""
    parts = text.split(",")
    if "" in parts:
        where = " beside a comma" if text else ""
        raise SchemeError(f"{text!r} names nothing{where}: give bias, bias:K, linear, or {EXAMPLE}")
    for word in ("bias", HEAD, "rate"):
        if [part.partition(":")[0] for part in parts].count(word) > 1:
            raise SchemeError(f"{text!r}: {word} is there twice")
    return parts


def _rate(text: str, part: str) -> float:
    match = re.fullmatch(r"rate:([0-9]*\.?[0-9]+(e-?[0-9])?)", part)
    low, high = RATE_FACTORS
    if match is None or not low <= float(match[1]) <= high:
        raise SchemeError(
            f"{text!r}: rate:F multiplies the learning rate of modules with {low:g} to {high:g}, "
            "as in rate:0.1"
        )
    return float(match[1])
