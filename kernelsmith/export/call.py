"""The call of an operator, read from its record: parameters, torch schema, and code that finds sizes from shapes."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from kernelsmith.errors import KernelsmithError
from kernelsmith.model import ArgumentInfo, OperatorInfo

_SCHEMA_TYPES = {"int": "int", "float": "float", "bool": "bool", "str": "str"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of the exported function."""

    info: ArgumentInfo
    annotation: str
    default: str | None
    """Python text."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def schema(self) -> str:
        """Type in a torch schema."""
        if self.info.kind == "scalar":
            kind = _SCHEMA_TYPES[self.annotation.removesuffix(" | None")]
        else:
            kind = "Tensor" if self.info.kind == "tensor" else "Tensor[]"
        return kind + ("?" if self.info.optional else "")


@dataclass(frozen=True)
class Call:
    """How the operator is called and what it returns."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: int
    """Tensors returned; 0 where the result is the mutated argument itself."""
    mutates: tuple[str, ...]
    returned_argument: str | None

    @property
    def declaration(self) -> str:
        """Parameters as Python text, annotated and with defaults."""
        return ", ".join(
            f"{p.name}: {p.annotation}" + (f" = {p.default}" if p.default is not None else "") for p in self.parameters
        )

    @property
    def arguments(self) -> str:
        return ", ".join(p.name for p in self.parameters)

    @property
    def tensors(self) -> list[str]:
        """Tensor arguments as elements of a tuple; lists unpacked."""
        return [("*" if p.info.kind == "list" else "") + p.name for p in self.parameters if p.info.kind != "scalar"]

    @property
    def annotation(self) -> str:
        """Return annotation of the exported function."""
        if self.returned_argument or self.returns == 1:
            return "torch.Tensor"
        return "tuple[" + ", ".join(["torch.Tensor"] * self.returns) + "]" if self.returns else "None"

    @property
    def schema(self) -> str:
        """Arguments and returns in torch's schema language."""
        parts = []
        for i, p in enumerate(self.parameters):
            kind = p.schema.replace("Tensor", f"Tensor(a{i}!)") if p.name in self.mutates else p.schema
            default = "" if p.default is None else "=" + p.default.replace("'", '"')
            parts.append(f"{kind} {p.name}{default}")
        returns = "Tensor" if self.returns == 1 else "(" + ", ".join(["Tensor"] * self.returns) + ")"
        return f"({', '.join(parts)}) -> {returns}"


def read_call(operator: OperatorInfo) -> Call:
    """The call of `operator`; KernelsmithError where torch has no schema for it."""
    function = ast.parse(operator.signature.strip().removesuffix(":") + ": ...").body[0]
    if not isinstance(function, ast.FunctionDef):
        raise KernelsmithError(f"{operator.name}: cannot read its signature {operator.signature!r}")
    args = function.args.posonlyargs + function.args.args
    if operator.kind == "kernelbench":
        args = args[1:]  # self
    defaults = [None] * (len(args) - len(function.args.defaults)) + [ast.unparse(d) for d in function.args.defaults]
    infos = {a.name: a for a in operator.arguments}
    parameters = tuple(
        Parameter(infos[a.arg], _annotation(infos[a.arg], a.annotation, operator), default)
        for a, default in zip(args, defaults, strict=True)
    )
    returned = _returned(operator)
    passed_through = returned[0] if len(returned) == 1 and returned[0] in operator.mutates else None
    count = 0 if passed_through else _return_count(function.returns, len(returned), operator)
    return Call(operator.name, parameters, count, operator.mutates, passed_through)


def _annotation(info: ArgumentInfo, given: ast.expr | None, operator: OperatorInfo) -> str:
    optional = " | None" if info.optional else ""
    if info.kind != "scalar":
        return ("torch.Tensor" if info.kind == "tensor" else "list[torch.Tensor]") + optional
    written = _plain(given).removesuffix(" | None")
    if written not in _SCHEMA_TYPES:
        values = [w.scalars[info.name] for w in operator.workloads if w.scalars.get(info.name) is not None]
        written = type(values[0]).__name__ if values else "float"
    return written + optional


def _plain(annotation: ast.expr | None) -> str:
    """An annotation as text; one that is a string (postponed evaluation) without its quotes."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if annotation is not None else ""


def _returned(operator: OperatorInfo) -> list[str]:
    """Texts of what the reference's last `return` gives back."""
    for node in ast.walk(ast.parse(operator.source)):
        if isinstance(node, ast.FunctionDef) and node.name == operator.name:
            returns = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
            if not returns:
                return []
            last = returns[-1]
            return [ast.unparse(e) for e in last.elts] if isinstance(last, ast.Tuple) else [ast.unparse(last)]
    return ["output"]


def _return_count(annotation: ast.expr | None, returned: int, operator: OperatorInfo) -> int:
    text = _plain(annotation)
    if text.lower().startswith("tuple["):
        inner = ast.parse(text, mode="eval").body
        assert isinstance(inner, ast.Subscript)
        return len(inner.slice.elts) if isinstance(inner.slice, ast.Tuple) else 1
    if text.lower().startswith("list"):
        raise KernelsmithError(
            f"{operator.name} returns a list, whose length torch.library cannot know",
            "let the reference return a tuple with one annotation per tensor",
        )
    return returned


def sizes_code(operator: OperatorInfo) -> str:
    """Body of `dims_of(...)`: finds every dim from the shapes, returns None where they do not fit the operator."""
    tensors = [info for info in operator.arguments if info.kind != "scalar"]
    lines: list[str] = []
    axes: list[tuple[ast.expr, str]] = []
    for info in tensors:
        shape, count = _shape(info)
        one = info.name if info.kind == "tensor" else f"{info.name}[0]"
        guard = f"{info.name} is not None and " if info.optional else ""
        if info.kind == "list":
            lines += [f"if not {info.name}:", "    return None"]
            axes.append((_expression(count), f"len({info.name})"))
        lines += [f"if {guard}{one}.dim() != {len(shape)}:", "    return None"]
        if not info.optional:
            axes += [(size, f"{one}.shape[{i}]") for i, size in enumerate(shape)]
    solved = _solve(axes, operator)
    lines += solved
    equal = [c for info in tensors for c in _equalities(info, solved)]
    relations = [f"not ({_relation(r, operator)})" for r in operator.relations]
    scalars = [c for info in operator.arguments if info.kind == "scalar" for c in _scalar_refusals(info)]
    for condition in [*equal, *relations, *scalars]:
        lines += [f"if {condition}:", "    return None"]
    names = ", ".join(f'"{d.name}": {d.name}' for d in operator.dims)
    return "\n".join(f"    {line}" for line in [*lines, f"return {{{names}}}"])


def _shape(info: ArgumentInfo) -> tuple[list[ast.expr], str]:
    text, _, count = info.shape.partition(" x ")
    parsed = ast.parse(text or "()", mode="eval").body
    return (list(parsed.elts) if isinstance(parsed, ast.Tuple) else [parsed]), count


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _equalities(info: ArgumentInfo, solved: list[str]) -> list[str]:
    """When shapes differ from the declared; nothing for a tensor each of whose axes has defined a dim."""
    shape, count = _shape(info)
    if all(f"{ast.unparse(size)} = {info.name}.shape[{i}]" in solved for i, size in enumerate(shape)):
        return []
    sizes = ast.unparse(ast.Tuple(shape, ast.Load()))
    if info.kind == "list":
        return [f"len({info.name}) != {count} or any(t.shape != {sizes} for t in {info.name})"]
    guard = f"{info.name} is not None and " if info.optional else ""
    return [f"{guard}{info.name}.shape != {sizes}"]


def _scalar_refusals(info: ArgumentInfo) -> list[str]:
    """When a scalar lies outside its declared values (`float from 1e-06 to 0.001`, `one of 0, 1`)."""
    kind, _, bounds = info.values.partition(" from ")
    if bounds:
        low, _, high = bounds.partition(" to ")
        condition = f"{low} <= {info.name} <= {high}"
    elif kind.startswith("one of "):
        condition = f"{info.name} in ({kind.removeprefix('one of ')},)"
    else:  # a KernelBench problem has exactly its own value
        condition = f"{info.name} == {info.values}"
    guard = f"{info.name} is not None and " if info.optional else ""
    return [f"{guard}not ({condition})"]


def _solve(axes: list[tuple[ast.expr, str]], operator: OperatorInfo) -> list[str]:
    """Assignments that give every dim a value, each from an axis in which it is the only unknown."""
    lines: list[str] = []
    known: set[str] = set()
    wanted = {d.name for d in operator.dims}
    while missing := wanted - known:
        for size, place in axes:
            unknown = {n.id for n in ast.walk(size) if isinstance(n, ast.Name)} - known
            if len(unknown) == 1 and (text := _invert(size, place, next(iter(unknown)))) is not None:
                lines.append(f"{next(iter(unknown))} = {text}")
                known |= unknown
                break
        else:
            names = ", ".join(sorted(missing))
            raise KernelsmithError(
                f"{operator.name}: {names} cannot be found from the shapes of its arguments, so no guard can be made",
                "declare a tensor whose shape has the dim on its own",
            )
    return lines


def _invert(size: ast.expr, place: str, name: str) -> str | None:
    """What `name` is if `size` equals `place`; the equality itself is tested afterwards, so `//` may round."""
    if isinstance(size, ast.Name):
        return place
    if not isinstance(size, ast.BinOp):
        return None
    left = name in {n.id for n in ast.walk(size.left) if isinstance(n, ast.Name)}
    if left and name in {n.id for n in ast.walk(size.right) if isinstance(n, ast.Name)}:
        return None
    inside, other = (size.left, ast.unparse(size.right)) if left else (size.right, ast.unparse(size.left))
    if isinstance(size.op, ast.Add):
        return _invert(inside, f"({place} - ({other}))", name)
    if isinstance(size.op, ast.Sub):
        return _invert(inside, f"({place} + ({other}))" if left else f"(({other}) - {place})", name)
    if isinstance(size.op, ast.Mult):
        return _invert(inside, f"{place} // {other if other.isalnum() else f'({other})'}", name)
    return None


def _relation(text: str, operator: OperatorInfo) -> str:
    """A `where=` relation as an expression of the dims."""
    try:
        parsed = _expression(text)
    except SyntaxError:
        parsed = ast.Constant(None)
    if isinstance(parsed, ast.Lambda):
        return f"({text})({', '.join(a.arg for a in parsed.args.args)})"
    if isinstance(parsed, ast.Compare | ast.BoolOp):
        return text
    raise KernelsmithError(
        f"{operator.name}: where={text} is a function by name, which a guard cannot carry along",
        "write it as a relation between dims or as a lambda",
    )
