"""The constant tables and parameter structs that kernel calls refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from mcutrain_host.dataclass import dataclass

from mcutrain.codegen.c_text import lines, literal, unused
from mcutrain.ir.op import FunctionName, KernelCall, Operand, Param

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ConstantTable:
    """A constant array, in lines of limited length."""

    ctype: str
    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Params:
    """A kernel's parameter struct with designated initializers; nested structs are one field."""

    type: str
    name: str
    fields: Fields


@dataclass
class Declarations:
    """Named after the first node that needs them; what is equal is declared once."""

    _tables: dict[tuple[str, tuple[int, ...]], ConstantTable] = field(default_factory=dict)
    _params: dict[tuple[str, Fields], Params] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    @property
    def tables(self) -> tuple[ConstantTable, ...]:
        """All constant tables, in order of first use."""
        return tuple(self._tables.values())

    @property
    def params(self) -> tuple[Params, ...]:
        """All parameter structs, in order of first use."""
        return tuple(self._params.values())

    def call(self, call: KernelCall, operand: Callable[[Operand], str], node: str = "node") -> str:
        """The statement of a call, its parameters declared. operand: the C pointer of each."""
        return _statement(call, self._struct(call, operand, node), operand)

    def rows(
        self, call: KernelCall, operand: Callable[[Operand], str], node: str, sets: Iterable[str]
    ) -> tuple[str, ...]:
        """The statements of a call with a copy of the parameters; sets: what changes in it."""
        copy = f"{call.function}_params params = {self._struct(call, operand, node)};"
        changes = (f"params.{change};" for change in sets)
        return (copy, *changes, _statement(call, "params", operand))

    def _struct(self, call: KernelCall, operand: Callable[[Operand], str], node: str) -> str:
        fields = _nested((p.name, self._value(p, operand, node)) for p in call.params)
        key = (f"{call.function}_params", fields)
        if key not in self._params:
            self._params[key] = Params(key[0], unused(f"{node}_params", self._names), fields)
        return self._params[key].name

    def _value(self, param: Param, operand: Callable[[Operand], str], node: str) -> str:
        if param.value is None:
            return "NULL"
        if isinstance(param.value, Operand):
            return operand(param.value)
        if isinstance(param.value, FunctionName):
            return param.value.name
        if isinstance(param.value, tuple):
            element = param.ctype.removeprefix("const ").removesuffix(" *")
            return self._table(element, param.value, f"{node}_{param.name.split('.')[-1]}")
        return literal(param.value)

    def _table(self, ctype: str, values: tuple[int, ...], name: str) -> str:
        key = (ctype, values)
        if key not in self._tables:
            self._tables[key] = ConstantTable(ctype, unused(name, self._names), lines(values))
        return self._tables[key].name


def _statement(call: KernelCall, params: str, operand: Callable[[Operand], str]) -> str:
    pointers = ["NULL" if o.kind == "null" else operand(o) for o in call.operands]
    return f"{call.function}({', '.join([f'&{params}', *pointers])});"


def _nested(fields: Iterable[tuple[str, str]]) -> Fields:
    """`x.h` and `x.w` become one field `x` with a braced value."""
    groups: dict[str, list[str]] = {}
    plain: dict[str, str] = {}
    for name, value in fields:
        outer, _, inner = name.partition(".")
        if inner:
            groups.setdefault(outer, []).append(f".{inner} = {value}")
            plain[outer] = f"{{{', '.join(groups[outer])}}}"
        else:
            plain[name] = value
    return tuple(plain.items())
