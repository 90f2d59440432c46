"""Reads tokens one by one: types, attributes, constants and locations, the parts every operation shares."""

from __future__ import annotations

import struct
from typing import NoReturn

from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.read.formats import encode_f8
from kernelsmith.triton_cpu.read.ir import Attribute, Dense, Element, Type
from kernelsmith.triton_cpu.read.lex import Token, tokenize
from kernelsmith.triton_cpu.read.locations import Locations

MAX_ELEMENTS = 1 << 22
_SHOWN = 80
_OPEN = {"(": ")", "[": "]", "{": "}", "<": ">"}
_ELEMENTS = {element.value: element for element in Element} | {"index": Element.I64}
_FLOAT_FORMAT = {Element.F32: ("<f", "<I"), Element.F64: ("<d", "<Q"), Element.F16: ("<e", "<H")}


class Cursor:
    """A position in the token list. Every method either moves on or raises, so reading ends."""

    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)
        self.position = 0
        self.locations = Locations(text)

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def fail(self, wanted: str) -> NoReturn:
        found = (self.token.text.strip() or self.token.kind)[:_SHOWN]
        raise TtirError(f"line {self.token.line} of the TTIR: expected {wanted}, found {found!r}")

    def at(self, kind: str, text: str | None = None) -> bool:
        return self.token.kind == kind and (text is None or self.token.text == text)

    def take(self, kind: str, text: str | None = None) -> str:
        if not self.at(kind, text):
            self.fail(text or kind)
        result = self.token.text
        self.position += 1
        return result

    def accept(self, kind: str, text: str | None = None) -> bool:
        if self.at(kind, text):
            self.position += 1
            return True
        return False

    def skip_newlines(self) -> None:
        while self.at("newline"):
            self.position += 1

    def skip_balanced(self) -> str:
        """Pass over a bracketed group, the cursor being at its opening bracket; returns the text inside."""
        stack: list[str] = []
        parts: list[str] = []
        while True:
            token = self.token
            if token.kind == "end":
                self.fail("a closing bracket")
            if token.kind in _OPEN:
                stack.append(_OPEN[token.kind])
            elif token.kind == "dims":
                stack.append(">")
            elif token.kind in (")", "]", "}", ">") and (not stack or stack.pop() != token.kind):
                self.fail("brackets that match")
            self.position += 1
            if not stack:
                return "".join(parts[1:])
            parts.append(token.text)

    def location(self) -> str | None:
        """An optional `loc(...)`."""
        if self.at("word", "loc") and self.tokens[self.position + 1].kind == "(":
            self.position += 1
            return self.locations.resolve(self.skip_balanced())
        return None

    def location_ahead(self) -> str | None:
        """The location at the end of this line, for an operation that cannot be read up to there."""
        while not (self.at("newline") or self.at("end")):
            if self.at("word", "loc"):
                return self.location()
            self.position += 1
        return None

    def type(self) -> Type:
        """One scalar, pointer or tensor type."""
        if not self.at("dims"):
            return self._scalar_type()
        dims = tuple(int(size) for size in self.take("dims").removeprefix("tensor<").split("x")[:-1])
        inner = self._scalar_type()
        if self.at(","):
            raise UnsupportedConstruct("a tensor with a layout", "the input is GPU code, not TTIR")
        self.take(">")
        if not dims or any(size < 1 for size in dims):
            self.fail("a tensor of at least one element")
        result = inner.with_shape(dims)
        if result.count > MAX_ELEMENTS:
            raise UnsupportedConstruct(str(result), f"a tensor has more than {MAX_ELEMENTS} elements")
        return result

    def _scalar_type(self) -> Type:
        depth = 0
        while self.accept("type", "!tt.ptr"):
            self.take("<")
            depth += 1
        element = self._element()
        for _ in range(depth):
            if self.accept(",") and not self.accept("string"):  # the address space; tl.const prints as "constant"
                self.take("number")
            self.take(">")
        if depth > 2:
            raise UnsupportedConstruct("a pointer to pointers to pointers", "keep the inner addresses as int64")
        if depth == 2:
            return Type(Element.I64, (), pointer=True, target=element)
        return Type(element, (), pointer=depth == 1)

    def _element(self) -> Element:
        name = self.token.text
        if self.at("word") and name in _ELEMENTS:
            self.position += 1
            return _ELEMENTS[name]
        if not self.at("type") and not (self.at("word") and name[0] in "fi" and name[1:2].isdigit()):
            self.fail("a type")
        raise UnsupportedConstruct(name, "no such element type on the CPU")

    def types(self) -> tuple[Type, ...]:
        """A type, or a parenthesised list of them."""
        if not self.accept("("):
            return (self.type(),)
        found: list[Type] = []
        while not self.accept(")"):
            if found:
                self.take(",")
            found.append(self.type())
            self.location()
        return tuple(found)

    def attributes(self) -> dict[str, Attribute]:
        """`{key = value : type, ...}`; values that no operation here reads are kept as text."""
        result: dict[str, Attribute] = {}
        self.take("{")
        while not self.accept("}"):
            if result:
                self.take(",")
            key = self.token.text.strip('"')
            if self.token.kind not in ("word", "string"):
                self.fail("an attribute name")
            self.position += 1
            result[key] = self.attribute_value() if self.accept("=") else 1
            if self.accept(":"):
                self.type()
        return result

    def attribute_value(self) -> Attribute:
        token = self.token
        value: Attribute
        if token.kind == "number":
            self.position += 1
            value = int(token.text) if token.text.lstrip("-").isdigit() else token.text
        elif token.kind == "string":
            self.position += 1
            value = token.text[1:-1]
        elif token.kind in _OPEN:
            value = self.skip_balanced()
        elif token.kind in ("word", "alias", "symbol"):
            self.position += 1
            value = {"true": 1, "false": 0}.get(token.text, token.text)
            if self.at("<"):
                value = self.skip_balanced()
        else:
            self.fail("an attribute value")
        return value

    def constant(self) -> tuple[Dense, Type]:
        """The payload of arith.constant: `5 : i32`, `true`, `dense<...> : tensor<...>`."""
        literals: list[str] = []
        if self.accept("word", "dense"):
            self.take("<")
            depth = 0
            while depth or not self.at(">"):
                token = self.token
                self.position += 1
                if token.kind == "[":
                    depth += 1
                elif token.kind == "]":
                    depth -= 1
                elif token.kind in ("number", "word", "string"):
                    literals.append(token.text)
                elif token.kind != ",":
                    self.position -= 1
                    self.fail("a literal")
            self.take(">")
        else:
            if self.token.kind not in ("number", "word"):
                self.fail("a literal")
            literals.append(self.token.text)
            self.position += 1
        if self.accept(":"):
            kind = self.type()
        elif literals[0] in ("true", "false"):
            kind = Type(Element.I1)
        else:
            self.fail("the constant's type")
        return Dense(self._bits(literals, kind)), kind

    def _bits(self, literals: list[str], kind: Type) -> tuple[int, ...]:
        if kind.pointer:
            raise UnsupportedConstruct("arith.constant", "a constant pointer")
        if len(literals) == 1 and literals[0].startswith('"0x'):
            raw = self._hex(literals[0][3:-1])
            size = kind.element.bytes
            bits = tuple(int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size))
        else:
            bits = tuple(self._literal_bits(literal, kind.element) for literal in literals)
        if len(bits) not in (1, kind.count):
            self.fail(f"1 or {kind.count} elements")
        return bits

    def _hex(self, digits: str) -> bytes:
        try:
            return bytes.fromhex(digits)
        except ValueError as error:
            raise TtirError(f"line {self.token.line} of the TTIR: {digits[:20]!r} is not hexadecimal") from error

    def _literal_bits(self, literal: str, element: Element) -> int:
        try:
            if literal in ("true", "false"):
                return int(literal == "true")
            if not element.is_float or literal.startswith("0x"):
                number = int(literal, 0)
                if not -(1 << (element.bits - 1)) <= number < 1 << element.bits:
                    raise OverflowError
                return number & ((1 << element.bits) - 1)
            if element is Element.BF16:
                return _bf16_bits(float(literal))
            if element.is_f8:
                return encode_f8(float(literal), element)
            real, integer = _FLOAT_FORMAT[element]
            (bits,) = struct.unpack(integer, struct.pack(real, float(literal)))
            return int(bits)
        except (ValueError, OverflowError, struct.error) as error:
            raise TtirError(
                f"line {self.token.line} of the TTIR: {literal[:_SHOWN]!r} is no {element.value}"
            ) from error


def _bf16_bits(value: float) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF
