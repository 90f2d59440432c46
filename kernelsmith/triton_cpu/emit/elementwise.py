"""C++ for one elementwise operation on scalars or on vectors of KS_W lanes.

The prelude's helpers are overloaded for both, so most rows of the tables serve both. 16-bit floats are float32 here
and are rounded after each arithmetic operation; a float32 result of + - * / or sqrt rounds to 16 bits exactly as the
operation itself would have (Figueroa, "When is double rounding innocuous?", SIGNUM 1995: 24 >= 2*11 + 2). 8-bit floats
are bits: arithmetic widens them, and narrows its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelsmith.triton_cpu.emit import mathlib
from kernelsmith.triton_cpu.emit.libdevice import lookup
from kernelsmith.triton_cpu.emit.names import computed, scalar_type, stored, vector_type
from kernelsmith.triton_cpu.errors import UnsupportedConstruct
from kernelsmith.triton_cpu.read.ir import Element, Op, Type, Value

_WRAPPING = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}
_BITWISE = {"arith.andi": "&", "arith.ori": "|", "arith.xori": "^"}
_SHIFTS = {"arith.shli": ("left", "u"), "arith.shrui": ("right", "u"), "arith.shrsi": ("right", "i")}
_FLOAT = {"arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/"}
_EXTREMA = {"arith.maxsi": (">", ""), "arith.minsi": ("<", ""), "arith.maxui": (">", "u"), "arith.minui": ("<", "u")}
_FLOAT_EXTREMA = {
    "arith.maxnumf": "ks_maxnum",
    "arith.minnumf": "ks_minnum",
    "arith.maximumf": "ks_maximum",
    "arith.minimumf": "ks_minimum",
}
_PREDICATE = {"arith.addi": "^", "arith.subi": "^", "arith.muli": "&", "arith.maxui": "|", "arith.minui": "&"} | {
    "arith.maxsi": "&",  # true is -1
    "arith.minsi": "|",
}
_ORDER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INVERSE = {"eq": "one", "gt": "ole", "ge": "olt", "lt": "oge", "le": "ogt"}
_MATH_NAMES = {"math.powf": "pow", "math.roundeven": "rint"}


class Writer:
    """Writes expressions for one kernel and remembers which maths functions they call."""

    def __init__(self) -> None:
        self.functions: set[str] = set()

    def elementwise(self, op: Op, args: Sequence[str], kinds: Sequence[Type], vector: bool) -> str:
        """The expression for `op` on `args`, all scalars or all vectors; `kinds` are the operands' types."""
        name = op.name
        kind = op.result.type
        element = kind.element
        if name not in _CASTS and (element.is_f8 or any(operand.element.is_f8 for operand in kinds)):
            return self._widened(op, args, kinds, vector)
        if name in _FLOAT:
            return self._rounded(f"{args[0]} {_FLOAT[name]} {args[1]}", element)
        if name == "arith.remf":
            return self.call("fmod", args, element, vector)
        if name in _FLOAT_EXTREMA:
            return f"{_FLOAT_EXTREMA[name]}({args[0]}, {args[1]})"
        if name in ("arith.cmpi", "arith.cmpf"):
            return self._compare(op, args, kinds[0], vector)
        if name in _CASTS:
            return self._cast(op, args[0], kinds[0], vector)
        if name.startswith("math.") or name in ("arith.negf", "tt.clampf", "tt.extern_elementwise"):
            return self._math(op, args, vector)
        return _integer(op, args, element, vector)

    def _widened(self, op: Op, args: Sequence[str], kinds: Sequence[Type], vector: bool) -> str:
        """An operation on 8-bit floats: in float32, rounded at the end."""
        pairs = zip(args, kinds, strict=True)
        wide = [
            self.resize_float(arg, kind.element, Element.F32, vector) if kind.is_float else arg for arg, kind in pairs
        ]
        types = [kind.with_element(Element.F32) if kind.is_float else kind for kind in kinds]
        result = op.result.type
        if not result.is_float:
            return self.elementwise(op, wide, types, vector)
        inner = replace(op, results=(Value(op.result.name, result.with_element(Element.F32)),))
        return self.resize_float(self.elementwise(inner, wide, types, vector), Element.F32, result.element, vector)

    def _rounded(self, code: str, element: Element) -> str:
        return f"ks_round_{element.value}({code})" if element.is_half else f"({code})"

    def call(
        self, function: str, args: Sequence[str], element: Element, vector: bool, kinds: Sequence[Type] = ()
    ) -> str:
        """A maths library call; float32 functions take vectors, float64 functions take scalars.

        `kinds` are the arguments' types, if they are not all `element`.
        """
        width = computed(element)
        full = f"ks_{function}_{width.value}"
        if full not in mathlib.available():
            raise UnsupportedConstruct(f"{function} of {element.value}", "no such function in the maths library")
        self.functions.add(full)
        if width is Element.F64:
            return _lanes(full, args, Element.F64, vector)
        if vector:
            return self._rounded(f"{full}({', '.join(args)})", element)
        vectors = [vector_type(kind) for kind in kinds] or ["vf32"] * len(args)
        lifted = ", ".join(f"ks_splat<{name}>({arg})" for name, arg in zip(vectors, args, strict=True))
        return self._rounded(f"{full}({lifted})[0]", element)

    def _math(self, op: Op, args: Sequence[str], vector: bool) -> str:
        element = op.result.type.element
        if op.name == "arith.negf":
            return f"(-{args[0]})"
        if op.name == "math.absf":
            return f"ks_abs({args[0]})"
        if op.name == "math.absi":
            zero = "0" if not vector else f"{vector_type(op.result.type)}{{}}"
            return f"ks_select(ks_mask({args[0]} < 0), {_wrap('-', [zero, args[0]], element, vector)}, {args[0]})"
        if op.name == "math.fma":  # one rounding, also where the processor has no such instruction
            if element.is_half:
                self.functions.add("ks_fused")
                return self._rounded(_lanes("ks_fused", args, Element.F32, vector), element)
            return self.call("fma", args, element, vector)
        if op.name == "tt.clampf":
            most, least = ("maximum", "minimum") if op.text("propagateNan") == "all" else ("maxnum", "minnum")
            return f"ks_{least}(ks_{most}({args[0]}, {args[1]}), {args[2]})"
        if op.name == "tt.extern_elementwise":
            return self._extern(op, args, vector)
        function = _MATH_NAMES.get(op.name, op.name.removeprefix("math."))
        return self.call(function, args, element, vector)

    def _extern(self, op: Op, args: Sequence[str], vector: bool) -> str:
        symbol = op.text("symbol")
        known = lookup(symbol)
        kinds = [operand.type for operand in op.operands]
        if known is None or not kinds or any(kind.element.bits < 32 and not kind.element.is_half for kind in kinds):
            raise UnsupportedConstruct(
                f"tt.extern_elementwise {symbol}", "it is no function of libdevice that is known here", op.location
            )
        self.functions.update(known.needs)
        if known.expression:
            return self._rounded(known.expression.format(*args), op.result.type.element)
        if known.lanes:
            return self._rounded(
                _lanes(known.lanes, args, computed(op.result.type.element), vector), op.result.type.element
            )
        element = next((kind.element for kind in kinds if kind.is_float), op.result.type.element)
        return self.call(known.function, args, element, vector, kinds)

    def _compare(self, op: Op, args: Sequence[str], kind: Type, vector: bool) -> str:
        predicate = op.words[0]
        a, b = args
        if op.name == "arith.cmpi":
            operator = _ORDER.get(predicate if len(predicate) == 2 else predicate[1:])
            if operator is None:
                raise UnsupportedConstruct(f"arith.cmpi {predicate}", "unknown predicate", op.location)
            if len(predicate) == 3:
                sign = predicate[0]
                if kind.is_predicate and not vector:
                    a, b = (f"(i32){'-' if sign == 's' else ''}{x}" for x in (a, b))
                elif sign == "u":
                    bits = 32 if kind.is_predicate else kind.element.bits
                    a, b = (f"({'v' if vector else ''}u{bits}){x}" for x in (a, b))
            return f"ks_mask({a} {operator} {b})"
        return _compare_floats(predicate, a, b, op)

    def _cast(self, op: Op, code: str, source: Type, vector: bool) -> str:
        target = op.result.type
        if op.name in ("tt.bitcast", "arith.bitcast"):
            return _bitcast(op, code, source, target, vector)
        if op.name in ("arith.truncf", "arith.extf", "tt.fp_to_fp"):
            to_zero = op.attributes.get("rounding") == "rtz" and target.element.bits < source.element.bits
            return self.resize_float(code, source.element, target.element, vector, to_zero=to_zero)
        if source.is_float:
            return self._to_integer(code, source.element, target.element, vector, signed=op.name != "arith.fptoui")
        if op.name in ("arith.extui", "arith.uitofp"):
            if source.is_predicate:
                code = f"({code} & 1)" if vector else f"(i32){code}"
            else:
                code = f"({'v' if vector else ''}u{source.element.bits}){code}"
        elif source.is_predicate and not vector:
            code = f"-(i32){code}"
        if target.is_predicate:
            whole = f"__builtin_convertvector({code}, vi32)" if vector else f"(i64)({code})"
            return f"ks_mask(({whole} & 1) != 0)"
        if target.element.is_f8:
            single = _convert(code, source, target.with_element(Element.F32), vector)
            return self.resize_float(single, Element.F32, target.element, vector)
        converted = _convert(code, source, target, vector)
        return self._rounded(converted, target.element) if target.is_float else converted

    def _on_lanes(self, function: str, code: str, lanes: str, vector: bool) -> str:
        """A call of a conversion that exists for vectors (of type `lanes`) only."""
        self.functions.add(function.partition("<")[0])
        return f"{function}({code})" if vector else f"{function}(ks_splat<{lanes}>({code}))[0]"

    def resize_float(self, code: str, source: Element, target: Element, vector: bool, *, to_zero: bool = False) -> str:
        """From one float type to another, rounded once: to nearest with ties to even, or towards zero."""
        if source is target:
            return code
        if source.is_f8:
            code = self._on_lanes(f"ks_widen_{source.value}", code, "vi8", vector)
        if target is Element.F64 or (source is Element.F64 and target is Element.F32 and not to_zero):
            return _convert(code, Type(source), Type(target), vector)
        if source is Element.F64:
            self.functions.update(["ks_toward_zero"] if to_zero else [])
            code = f"{'ks_toward_zero' if to_zero else 'ks_to_odd'}({code})"
        if target is Element.F32 or (source.is_f8 and target.is_half):
            return code
        if to_zero:
            code = self._on_lanes(f"ks_truncate_{target.value}", code, "vf32", vector)
        if target.is_half:
            return code if to_zero else f"ks_round_{target.value}({code})"
        return self._on_lanes(f"ks_{'keep' if to_zero else 'narrow'}_{target.value}", code, "vf32", vector)

    def _to_integer(self, code: str, source: Element, target: Element, vector: bool, *, signed: bool) -> str:
        """Towards zero; narrow integers are the low bits of a 16-bit result, as on a GPU."""
        if source.is_f8:
            code = self.resize_float(code, source, Element.F32, vector)
            source = Element.F32
        sign = "i" if signed else "u"
        lanes = "vi32" if target.bits < 32 else f"v{sign}{target.bits}"
        function = f"ks_whole<{lanes}, {sign}{max(target.bits, 16)}>"
        whole = self._on_lanes(function, code, vector_type(Type(source)), vector)
        if target is Element.I1:
            return f"ks_mask({whole} != 0)"
        if not vector:
            return f"({target.value}){whole}"
        kind = f"v{target.value}"
        return f"({kind}){whole}" if target.bits >= 32 else f"ks_convert<{kind}>({whole})"


_CASTS = {"tt.bitcast", "tt.fp_to_fp", "arith.bitcast", "arith.index_cast"} | {
    f"arith.{name}" for name in ("extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui")
}


def _convert(code: str, source: Type, target: Type, vector: bool) -> str:
    if vector:
        return f"ks_convert<{vector_type(target)}>({code})"
    return f"({scalar_type(target)})({code})"


def _bitcast(op: Op, code: str, source: Type, target: Type, vector: bool) -> str:
    a, b = stored(source.element), stored(target.element)
    if a is b:
        return code
    if a.bits != b.bits or a is Element.I1:
        raise UnsupportedConstruct(f"{op.name} {source} -> {target}", "the sizes differ", op.location)
    if a.is_half:
        bits = f"ks_narrow_{a.value}({code})"
        return f"ks_widen_{b.value}({bits})" if b.is_half else f"({'v' if vector else ''}i16){bits}"
    if b.is_half:
        return f"ks_widen_{b.value}(({'v' if vector else ''}u16){code})"
    if vector or a.is_float is b.is_float:
        return f"(({vector_type(target) if vector else scalar_type(target)}){code})"
    return f"({b.value})ks_bits_of({code})" if a.is_float else f"ks_{b.value}_of((u{a.bits}){code})"


def _compare_floats(predicate: str, a: str, b: str, op: Op) -> str:
    rest = predicate[1:]
    if predicate == "une":
        return f"ks_mask({a} != {b})"
    if predicate == "one":
        return f"(ks_mask({a} < {b}) | ks_mask({a} > {b}))"
    if predicate in ("ord", "uno"):
        ordered = f"(ks_mask({a} == {a}) & ks_mask({b} == {b}))"
        return ordered if predicate == "ord" else f"ks_not({ordered})"
    if predicate[0] == "o" and rest in _ORDER:
        return f"ks_mask({a} {_ORDER[rest]} {b})"
    if predicate[0] == "u" and rest in _INVERSE:
        return f"ks_not({_compare_floats(_INVERSE[rest], a, b, op)})"
    raise UnsupportedConstruct(f"arith.cmpf {predicate}", "unknown predicate", op.location)


def _wrap(operator: str, args: Sequence[str], element: Element, vector: bool) -> str:
    """Two's complement arithmetic through the unsigned type."""
    if vector:
        return f"(vi{element.bits})((vu{element.bits}){args[0]} {operator} (vu{element.bits}){args[1]})"
    wide = max(element.bits, 32)  # C++ would promote a narrow unsigned type to a signed int
    return f"(i{element.bits})((u{wide}){args[0]} {operator} (u{wide}){args[1]})"


def _integer(op: Op, args: Sequence[str], element: Element, vector: bool) -> str:
    name = op.name
    if element is Element.I1:
        if name in _SHIFTS:
            return args[0] if name == "arith.shrsi" else f"({args[0]} & ks_not({args[1]}))"
        operator = _PREDICATE.get(name) or _BITWISE.get(name)
        if operator is None:
            raise UnsupportedConstruct(f"{name} on i1", "no such predicate arithmetic", op.location)
        return f"({args[0]} {operator} {args[1]})"
    kind = f"{'v' if vector else ''}u{element.bits}"
    if name in _WRAPPING:
        return _wrap(_WRAPPING[name], args, element, vector)
    if name in _SHIFTS:
        direction, sign = _SHIFTS[name]
        value = f"({'v' if vector else ''}{sign}{element.bits}){args[0]}"
        return f"({'v' if vector else ''}i{element.bits})ks_shift_{direction}({value}, ({kind}){args[1]})"
    if name in _BITWISE:
        return f"({args[0]} {_BITWISE[name]} {args[1]})"
    if name in _EXTREMA:
        operator, sign = _EXTREMA[name]
        a, b = (f"({kind}){arg}" if sign else arg for arg in args)
        return f"ks_select(ks_mask({a} {operator} {b}), {args[0]}, {args[1]})"
    result = f"{'v' if vector else ''}i{element.bits}"
    if name == "tt.mulhiui":
        return f"({result})ks_mulhi(({kind}){args[0]}, ({kind}){args[1]})"
    prefix = "v" if vector else ""
    for operation, function in (("div", "divide"), ("rem", "remainder")):
        if name == f"arith.{operation}si":
            return f"ks_{prefix}{function}({args[0]}, {args[1]})"
        if name == f"arith.{operation}ui":
            return f"({result})ks_{prefix}{function}(({kind}){args[0]}, ({kind}){args[1]})"
    raise UnsupportedConstruct(name, "the operation is not known", op.location)


def _lanes(function: str, args: Sequence[str], element: Element, vector: bool) -> str:
    """A function of scalars, given by its name or as a lambda, on scalars or lane by lane."""
    joined = ", ".join(args)
    if not vector:
        return f"({element.value})({function})({joined})"
    # A function's name is wrapped, since a call by its address might not be inlined.
    code = f"[](auto... x) {{ return {function}(x...); }}" if function.isidentifier() else function
    return f"ks_lanes<v{element.value}>({code}, {joined})"
