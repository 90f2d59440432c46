"""TTIR text to typed IR.

Operations in their custom syntax share one reader: operands, keywords, attributes and types are collected as they
come, and `infer` decides what they mean. Only operations with regions or branch targets have readers of their own.
Nesting is bounded, so hostile text ends in a TtirError, never in Python's own recursion limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.read.cursor import Cursor
from kernelsmith.triton_cpu.read.dialects import EXACT, in_triton
from kernelsmith.triton_cpu.read.indirect import through_addresses
from kernelsmith.triton_cpu.read.infer import check_operation, result_types
from kernelsmith.triton_cpu.read.ir import (
    Attribute,
    Block,
    Element,
    Function,
    Module,
    Op,
    Region,
    Successor,
    Type,
    Value,
)

MAX_DEPTH = 32
MAX_OPS = 20_000
Names = dict[str, Value]
_EXACT = {"tt.precise_sqrt": "math.sqrt", "tt.precise_divf": "arith.divf", "tt.approx_divf": "arith.divf"} | EXACT
"""Operations that say how they round; here the plain operation is correctly rounded."""


def parse(text: str) -> Module:
    """Read one module.

    Raises:
        TtirError: the text is malformed.
        UnsupportedConstruct: it names a type that the CPU does not have.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.depth = 0
        self.count = 0

    def module(self) -> Module:
        cursor = self.cursor
        functions: dict[str, Function] = {}
        while not cursor.at("end"):
            if cursor.at("word", "tt.func"):
                function = self.function()
                functions[function.name] = function
            elif cursor.at("alias"):  # a location or attribute definition
                while not cursor.at("newline") and not cursor.at("end"):
                    cursor.position += 1
            elif cursor.accept("word", "module"):
                while not cursor.at("{") and not cursor.at("newline"):
                    if cursor.accept("word", "attributes"):
                        cursor.attributes()
                    else:
                        cursor.position += 1
                cursor.take("{")
            elif cursor.at("newline") or cursor.at("}"):
                cursor.position += 1
            elif cursor.location() is None and not cursor.at("newline"):
                cursor.fail("a function")
        if sum(function.public for function in functions.values()) != 1:
            raise TtirError("the TTIR must hold exactly one public function")
        return Module(functions)

    def function(self) -> Function:
        cursor = self.cursor
        cursor.take("word", "tt.func")
        public = not cursor.accept("word", "private")
        cursor.accept("word", "public")
        name = cursor.take("symbol")[1:].strip('"')
        names: Names = {}
        arguments: list[Value] = []
        cursor.take("(")
        while not cursor.accept(")"):
            if arguments:
                cursor.take(",")
            arguments.append(self.argument(names))
        results = cursor.types() if cursor.accept("->") else ()
        if cursor.accept("word", "attributes"):
            cursor.attributes()
        body = self.region(names, allow_branches=True)
        cursor.location()
        return Function(name, tuple(arguments), results, body, public)

    def argument(self, names: Names) -> Value:
        """`%name: type {attributes} loc(...)`, added to `names`."""
        cursor = self.cursor
        name = cursor.take("value")
        cursor.take(":")
        value = Value(name, cursor.type())
        if cursor.at("{"):
            cursor.attributes()
        cursor.location()
        names[name] = value
        return value

    def region(self, outer: Names, arguments: Sequence[Value] = (), *, allow_branches: bool = False) -> Region:
        """`{ ops }`, or labelled blocks; names of `outer` stay visible, names defined inside do not leave."""
        cursor = self.cursor
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TtirError(f"line {cursor.token.line} of the TTIR: regions nest deeper than {MAX_DEPTH}")
        names = dict(outer)
        cursor.take("{")
        blocks: list[Block] = []
        label, block_arguments = "^bb0", tuple(arguments)
        while not cursor.at("}"):
            cursor.skip_newlines()
            if cursor.at("block"):
                label, block_arguments = self.label(names)
            ops = self.ops(names)
            blocks.append(Block(label, block_arguments, ops))
            cursor.skip_newlines()
        cursor.take("}")
        if not blocks:
            blocks.append(Block(label, block_arguments, ()))
        if len(blocks) > 1 and not allow_branches:
            cursor.fail("a region of one block")
        if len({block.label for block in blocks}) != len(blocks):
            cursor.fail("block labels that differ")
        self.depth -= 1
        return Region(tuple(blocks))

    def label(self, names: Names) -> tuple[str, tuple[Value, ...]]:
        cursor = self.cursor
        label = cursor.take("block")
        arguments: list[Value] = []
        if cursor.accept("("):
            while not cursor.accept(")"):
                if arguments:
                    cursor.take(",")
                arguments.append(self.argument(names))
        cursor.take(":")
        return label, tuple(arguments)

    def ops(self, names: Names) -> tuple[Op, ...]:
        found: list[Op] = []
        cursor = self.cursor
        while True:
            cursor.skip_newlines()
            if cursor.at("}") or cursor.at("block"):
                return tuple(found)
            for op in in_triton(self.op(names)):
                found.extend(through_addresses(op))
            if not cursor.at("newline") and not cursor.at("}"):
                cursor.fail("the end of the operation")

    def op(self, names: Names) -> Op:
        self.count += 1
        if self.count > MAX_OPS:
            raise UnsupportedConstruct("the kernel", f"it has more than {MAX_OPS} operations")
        result_names = self.result_names()
        name = self.cursor.token.text.strip('"')
        if not (self.cursor.accept("word") or self.cursor.accept("string")):
            self.cursor.fail("an operation")
        name = _EXACT.get(name, name)
        readers = {
            "scf.for": self.for_op,
            "scf.if": self.if_op,
            "scf.while": self.while_op,
            "cf.br": self.branch_op,
            "cf.cond_br": self.branch_op,
            "arith.constant": self.constant_op,
        }
        generic = self.cursor.tokens[self.cursor.position - 1].kind == "string"
        reader = self.generic_op if generic else readers.get(name, self.plain_op)
        try:
            draft = reader(name, names)
        except UnsupportedConstruct as error:
            raise error.at(self.cursor.location_ahead()) from None
        check_operation(name, draft.operands, draft.types, draft.attributes)
        location = self.cursor.location()
        types = draft.types
        if sum(count for _, count in result_names) not in (len(types), 0):
            self.cursor.fail(f"{len(types)} results of {name}")
        results = [Value(f"{name}", kind) for kind in types]
        at = 0
        for result_name, count in result_names:
            for number in range(count):
                results[at] = Value(result_name, types[at])
                names[result_name if count == 1 else f"{result_name}#{number}"] = results[at]
                at += 1
        return Op(
            name,
            draft.operands,
            tuple(results),
            draft.attributes,
            draft.words,
            draft.regions,
            draft.successors,
            location,
        )

    def result_names(self) -> list[tuple[str, int]]:
        cursor = self.cursor
        found: list[tuple[str, int]] = []
        while cursor.at("value"):
            name = cursor.take("value")
            count = int(cursor.take("number")) if cursor.accept(":") else 1
            if not 0 < count <= 256:
                cursor.fail("a sensible number of results")
            found.append((name, count))
            if not cursor.accept(","):
                break
        if found:
            cursor.take("=")
        return found

    def lookup(self, names: Names) -> Value:
        token = self.cursor.token
        name = self.cursor.take("value")
        value = names.get(name) or names.get(name.removesuffix("#0"))
        if value is None:
            raise TtirError(f"line {token.line} of the TTIR: {name} is not defined here")
        return value

    def operand_list(self, names: Names) -> tuple[Value, ...]:
        found: list[Value] = []
        while self.cursor.at("value"):
            found.append(self.lookup(names))
            if not self.cursor.accept(","):
                break
        return tuple(found)

    def plain_op(self, name: str, names: Names) -> _Draft:
        """Any operation without regions in its custom syntax."""
        cursor = self.cursor
        draft = _Draft()
        operands: list[Value] = []
        words: list[str] = []
        scaled: list[int] = []
        left: list[Type] = []
        right: list[Type] | None = None
        in_types = False
        while not (cursor.at("newline") or cursor.at("end") or cursor.at("}") or cursor.at("word", "loc")):
            token = cursor.token
            if token.kind == "value":
                operands.append(self.lookup(names))
                in_types = False
            elif token.kind == ":":
                cursor.position += 1
                in_types = True
            elif in_types and (token.kind == "->" or token.text == "to"):
                cursor.position += 1
                right = []
            elif in_types and token.kind in ("dims", "type", "word", "("):
                (left if right is None else right).extend(cursor.types())
            elif token.kind == "{":
                draft.attributes |= cursor.attributes()
            elif token.kind == "<" and cursor.tokens[cursor.position + 1].kind == "{":
                cursor.position += 1
                draft.attributes |= cursor.attributes()
                cursor.take(">")
            elif token.kind in ("<", "["):
                if token.kind == "[":
                    cursor.position += 1  # tt.gather's index is an ordinary operand
                else:
                    cursor.skip_balanced()
            elif token.kind == "word" and cursor.tokens[cursor.position + 1].kind == "=":
                cursor.position += 2
                draft.attributes[token.text] = cursor.attribute_value()
            else:
                if token.kind == "string":
                    draft.attributes["text"] = token.text[1:-1]
                elif token.kind in ("word", "number", "symbol"):
                    words.append(token.text)
                if token.text == "scale":  # tt.dot_scaled: the next operand scales the last one
                    scaled.append(len(operands) - 1)
                cursor.position += 1
        draft.attributes |= {"scaled": tuple(scaled)} if scaled else {}
        draft.operands, draft.words = tuple(operands), tuple(words)
        draft.types = result_types(name, draft.operands, tuple(left), None if right is None else tuple(right), words)
        return draft

    def generic_op(self, name: str, names: Names) -> _Draft:
        """`"name"(operands) <{attributes}> ({regions}) : (types) -> types`."""
        cursor = self.cursor
        draft = _Draft()
        cursor.take("(")
        draft.operands = self.operand_list(names)
        cursor.take(")")
        if cursor.accept("<"):
            draft.attributes |= cursor.attributes()
            cursor.take(">")
        if cursor.accept("("):
            branches = name == "tt.map_elementwise"
            regions = [self.region(names, allow_branches=branches)]
            while cursor.accept(","):
                cursor.skip_newlines()
                regions.append(self.region(names))
            cursor.take(")")
            draft.regions = tuple(regions)
        if cursor.at("{"):
            draft.attributes |= cursor.attributes()
        cursor.take(":")
        if cursor.types() != tuple(operand.type for operand in draft.operands):
            cursor.fail(f"the operand types of {name}")
        cursor.take("->")
        draft.types = cursor.types()
        return draft

    def constant_op(self, name: str, names: Names) -> _Draft:
        value, kind = self.cursor.constant()
        return _Draft(attributes={"value": value}, types=(kind,))

    def branch_op(self, name: str, names: Names) -> _Draft:
        cursor = self.cursor
        draft = _Draft(operands=self.operand_list(names))
        successors: list[Successor] = []
        while cursor.at("block"):
            label = cursor.take("block")
            operands: tuple[Value, ...] = ()
            if cursor.accept("("):
                operands = self.operand_list(names)
                cursor.take(":")
                while not cursor.accept(")"):
                    cursor.type()
                    cursor.accept(",")
            successors.append(Successor(label, operands))
            cursor.accept(",")
        draft.successors = tuple(successors)
        if len(successors) != (1 if name == "cf.br" else 2) or len(draft.operands) != len(successors) - 1:
            cursor.fail(f"the branch targets of {name}")
        return draft

    def iteration_arguments(self, names: Names) -> tuple[list[str], tuple[Value, ...]]:
        """`(%a = %b, ...)`: inner names and initial values."""
        cursor = self.cursor
        inner: list[str] = []
        initial: list[Value] = []
        cursor.take("(")
        while not cursor.accept(")"):
            if inner:
                cursor.take(",")
            inner.append(cursor.take("value"))
            cursor.take("=")
            initial.append(self.lookup(names))
        return inner, tuple(initial)

    def for_op(self, name: str, names: Names) -> _Draft:
        """`scf.for [unsigned] %i = %lo to %hi step %s [iter_args(...) -> (types)] [: type] { }`."""
        cursor = self.cursor
        unsigned = cursor.accept("word", "unsigned")
        induction = cursor.take("value")
        cursor.take("=")
        bounds = [self.lookup(names)]
        cursor.take("word", "to")
        bounds.append(self.lookup(names))
        cursor.take("word", "step")
        bounds.append(self.lookup(names))
        inner: list[str] = []
        initial: tuple[Value, ...] = ()
        types: tuple[Type, ...] = ()
        if cursor.accept("word", "iter_args"):
            inner, initial = self.iteration_arguments(names)
            cursor.take("->")
            types = cursor.types()
        kind = cursor.type() if cursor.accept(":") else Type(Element.I64)
        if any(bound.type != kind or not kind.is_integer for bound in bounds):
            cursor.fail("loop bounds of the induction variable's type")
        if tuple(value.type for value in initial) != types:
            cursor.fail("initial values of the loop's result types")
        arguments = [Value(induction, kind)] + [Value(n, t) for n, t in zip(inner, types, strict=True)]
        scope = names | {argument.name: argument for argument in arguments}
        region = self.region(scope, arguments)
        attributes: dict[str, Attribute] = {"unsigned": int(unsigned)}
        if cursor.at("{"):
            attributes |= cursor.attributes()
        return _Draft(operands=(*bounds, *initial), types=types, regions=(region,), attributes=attributes)

    def if_op(self, name: str, names: Names) -> _Draft:
        cursor = self.cursor
        condition = self.lookup(names)
        types = cursor.types() if cursor.accept("->") else ()
        regions = [self.region(names)]
        regions.append(self.region(names) if cursor.accept("word", "else") else Region((Block("^bb0", (), ()),)))
        if cursor.at("{"):
            cursor.attributes()
        return _Draft(operands=(condition,), types=types, regions=tuple(regions))

    def while_op(self, name: str, names: Names) -> _Draft:
        """`scf.while (%a = %b, ...) : (types) -> types { } do { ^bb0(...): }`."""
        cursor = self.cursor
        inner, initial = self.iteration_arguments(names) if cursor.at("(") else ([], ())
        cursor.take(":")
        before_types = cursor.types()
        cursor.take("->")
        types = cursor.types()
        if tuple(value.type for value in initial) != before_types:
            cursor.fail("initial values of the loop's types")
        arguments = [Value(n, t) for n, t in zip(inner, before_types, strict=True)]
        before = self.region(names | {argument.name: argument for argument in arguments}, arguments)
        cursor.take("word", "do")
        after = self.region(names)
        if cursor.accept("word", "attributes"):
            cursor.attributes()
        return _Draft(operands=initial, types=types, regions=(before, after))


class _Draft:
    """An operation while it is being read."""

    def __init__(
        self,
        operands: tuple[Value, ...] = (),
        types: tuple[Type, ...] = (),
        regions: tuple[Region, ...] = (),
        attributes: dict[str, Attribute] | None = None,
    ) -> None:
        self.operands = operands
        self.types = types
        self.regions = regions
        self.attributes = attributes if attributes is not None else {}
        self.words: tuple[str, ...] = ()
        self.successors: tuple[Successor, ...] = ()
