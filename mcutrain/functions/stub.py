"""The stub that type checkers read in the place of mcutrain/__init__.py: all keywords, spelled out.

`with_keywords` makes fields of options keywords while the program runs, which no checker sees. So
the stub is written from the signatures, and a test compares it with the file.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import mcutrain
from mcutrain.arguments import PathLike
from mcutrain.functions.keywords import Keywords

HEAD = '''"""For type checkers. mcutrain.functions.stub writes it, and a test compares it."""
'''


def stub() -> str:
    """Return the text of mcutrain/__init__.pyi."""
    written = _Stub()
    parts = [written.signature(name) for name in mcutrain.__all__ if _is_function(name)]
    kept = [name for name in mcutrain.__all__ if not _is_function(name)]
    homes = {name: getattr(mcutrain, name).__module__ for name in kept}
    own = "".join(f"from {home} import {name} as {name}\n" for name, home in homes.items())
    listed = "".join(f'    "{name}",\n' for name in mcutrain.__all__)
    head = f"{HEAD}\n{written.imports}\n{own}\n__all__ = [\n{listed}]\n\n__version__: str\n"
    return "\n".join((head, *parts))


def _is_function(name: str) -> bool:
    return not isinstance(getattr(mcutrain, name), type)


class _Stub:
    """Writes signatures, and collects what they import."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}

    def signature(self, name: str) -> str:
        """Return a function without its body."""
        function = getattr(mcutrain, name)
        hints = get_type_hints(function)
        lines, has_star = [], False
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
                lines.append("    *,\n")
                has_star = True
            hint = hints.get(parameter.name) or _hint_of_field(function, parameter.name)
            default = "" if parameter.default is parameter.empty else " = ..."
            lines.append(f"    {parameter.name}: {self.text(hint)}{default},\n")
        return f"def {name}(\n{''.join(lines)}) -> {self.text(hints['return'])}: ...\n"

    def text(self, hint: Any) -> str:
        """Return a type as the stub has it."""
        origin, inner = get_origin(hint), get_args(hint)
        if hint in (None, type(None)):
            return "None"
        if hint is Any:
            return self._named("typing", "Any")
        if origin is Annotated:
            return self.text(inner[0])
        if origin is Literal:
            return f"{self._named('typing', 'Literal')}[{', '.join(map(_quoted, inner))}]"
        if origin in (Union, types.UnionType):
            return self._union(hint)
        if origin is Callable:
            *takes, gives = inner
            given = ", ".join(self.text(kind) for kind in (takes[0] if takes else ()))
            return f"{self._named('collections.abc', 'Callable')}[[{given}], {self.text(gives)}]"
        if origin is not None:
            many = ", ".join("..." if kind is ... else self.text(kind) for kind in inner)
            return f"{self._class(origin)}[{many}]"
        return self._class(hint)

    def _union(self, hint: Any) -> str:
        left, found = list(get_args(hint)), []
        paths = get_args(PathLike)
        if all(kind in left for kind in paths):
            left = [kind for kind in left if kind not in paths]
            found.append(self._named("mcutrain.arguments", "PathLike"))
        return " | ".join((*found, *dict.fromkeys(self.text(kind) for kind in left)))

    def _class(self, kind: Any) -> str:
        if kind.__module__ == "builtins":
            return str(kind.__name__)
        return self._named(kind.__module__, kind.__qualname__)

    def _named(self, module: str, name: str) -> str:
        if name not in mcutrain.__all__:
            self.names.setdefault(module, set()).add(name)
        return name

    @property
    def imports(self) -> str:
        """What the signatures import, a line for each module."""
        lines = (f"from {m} import {', '.join(sorted(n))}\n" for m, n in sorted(self.names.items()))
        return "".join(lines)


def _quoted(word: Any) -> str:
    return f'"{word}"' if isinstance(word, str) else repr(word)


def _hint_of_field(function: Callable[..., Any], name: str) -> Any:
    """Return the type of a keyword that is a field of one of the function's options."""
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.default, Keywords):
            hints = get_type_hints(type(parameter.default))
            if name in hints:
                return hints[name]
    raise AssertionError(f"{name} is a parameter, or a field of one")
