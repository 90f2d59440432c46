"""One loop over a tensor's elements while it is being emitted.

A nest (see `nest`) runs scalar loops over every dimension but one, and that one, the last that is longer than 1, in
steps of KS_W where its size allows. The body is emitted twice when prefix masks occur: once for the x below every
mask's count, where masks are known to hold, and once for the rest, with masks. Code that does not depend on x stands
before the x loop.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelsmith.triton_cpu.emit.names import scalar_type, vector_type
from kernelsmith.triton_cpu.emit.reps import Digit, Linear, Offsets, Prefix, Rep, Uniform, Vector
from kernelsmith.triton_cpu.read.ir import Element, Type, Value

if TYPE_CHECKING:
    from kernelsmith.triton_cpu.emit.scope import Scope

Index = tuple[Rep, ...]


class Varies(Exception):  # noqa: N818 - an answer, not an error
    """Beyond the masks' reach the elements are not all alike."""


class Loop:
    """One copy of a loop body while it is being emitted.

    Attributes:
        extent: how far x runs.
        head: lines before the x loop that set up what it accumulates.
        pre: lines before the x loop for values that do not depend on x; the body itself in a loop without vectors.
        limits: i64 expressions; the body is right only for x below all of them.
        fused: values whose arrays this loop fills on the way.
        last: an i64 expression; from there on the body does nothing (None: it runs to the end).
        past: set in the copy for all x beyond the reach of every prefix mask: the masks' counts. There every value must
            be uniform, or `Varies` is raised.
        named: the scalars in `pre` by their code.
        positions: the vectors of indices in `body` by their code.
        exact: what integers would be had nothing wrapped, signed or not (see `exact`).
        pre_end: lines between finding the masks' reach and the x loop.
        endings: what `fused` values are beyond that reach.
        reads_arrays: whether the body takes vectors from the kernel's own arrays.
    """

    def __init__(self, scope: Scope, shape: tuple[int, ...], index: Index, *, full: bool, x: str | None) -> None:
        walked = (size for at, size in zip(index, shape, strict=True) if isinstance(at, Linear | Digit))
        self.extent = math.prod(walked)
        self.scope = scope
        self.shape = shape
        self.index = index
        self.full = full
        self.x = x
        self.head: list[str] = []
        self.body: list[str] = []
        self.pre: list[str] = self.body if x is None else []
        self.limits: dict[str, None] = {}
        self.fused: dict[Value, None] = {}
        self.last: str | None = None
        self.past: dict[str, None] | None = None
        self.endings: dict[Value, str] = {}
        self.reads_arrays = False
        self._opposites: dict[str, str] = {}
        self.pre_end: list[str] = []
        self.named: dict[tuple[Type, str], str] = {}
        self.same_for_all_x: dict[tuple[Value, Index], Rep] = {}
        self.in_body: dict[tuple[Value, Index], Rep] = {}
        self.positions: dict[tuple[Type, str], Vector] = {}
        self.exact: dict[tuple[Value, Index, bool], Rep] = {}

    def tail(self) -> Loop:
        """The second copy, for the x that the limits leave over."""
        other = Loop(self.scope, self.shape, self.index, full=False, x=self.x)
        other.pre, other.named = self.pre, self.named
        other.same_for_all_x = {
            key: rep for key, rep in self.same_for_all_x.items() if isinstance(rep, Uniform) and rep.code != "true"
        }
        return other

    def past_the_masks(self) -> Loop:
        """The copy that knows every prefix mask to be false."""
        other = Loop(self.scope, self.shape, self.index, full=False, x=self.x)
        other.pre, other.named = self.pre, self.named
        other.past = {}
        return other

    def recall(self, value: Value, index: Index) -> Rep | None:
        key = (value, index)
        return self.in_body.get(key) or self.same_for_all_x.get(key)

    def remember(self, value: Value, index: Index, rep: Rep) -> Rep:
        kept = self.in_body if isinstance(rep, Vector | Offsets) or self.limits else self.same_for_all_x
        kept[(value, index)] = rep
        return rep

    def scalar(self, kind: Type, code: str, name: str = "s") -> str:
        """Name a scalar that is the same for all x; constants and names stay as they are."""
        if code.replace("_", "").isalnum():
            return code
        known = self.named.get((kind, code))
        if known is None:
            known = self.named[(kind, code)] = self.scope.fresh(name)
            qualified = "char *const" if kind.pointer else f"const {scalar_type(kind)}"
            self.pre.append(f"{qualified} {known} = {code};")
        return known

    def opposite(self, index: str) -> str:
        """The other index along a dimension of size 2; its opposite is this one by name, so that both stay known."""
        if index not in self._opposites:
            other = self.scalar(Type(Element.I32), f"1 - {index}", "other")
            self._opposites.update({index: other, other: index})
        return self._opposites[index]

    def count(self, code: str) -> str:
        """Name an i64 that is the same for all x."""
        return self.scalar(Type(Element.I64), code, "count")

    def vector(self, kind: Type, code: str, name: str = "t") -> Vector:
        """Name a vector of this iteration."""
        if self.past is not None:
            raise Varies
        variable = self.scope.fresh(name)
        self.body.append(f"const {vector_type(kind)} {variable} = {code};")
        return Vector(variable)

    def position(self, kind: Type, code: str, name: str = "at") -> Vector:
        """Name a vector of indices, once for all who compute it from the same names."""
        known = self.positions.get((kind, code))
        if known is None:
            known = self.positions[(kind, code)] = self.vector(kind, code, name)
        return known

    def require(self, count: str) -> None:
        """From here on the body is right only for x < count."""
        self.limits[count] = None

    def reached(self) -> list[str]:
        """Conditions without which no iteration happens, for what stands before the loop but must not happen then."""
        return [f"{count} > 0" for count in self.limits] if self.x is not None else []

    def as_vector(self, rep: Rep, kind: Type) -> str:
        """The KS_W lanes of an integer, float or predicate."""
        target = vector_type(kind)
        if self.past is not None and not isinstance(rep, Uniform):
            raise Varies
        if isinstance(rep, Vector):
            return rep.code
        if isinstance(rep, Linear):
            wide = kind.element if kind.element.bits >= 32 else Element.I32
            stride = f"({wide.value}){rep.stride}"
            start = f"({wide.value})({self._at_x(rep, wide)})"
            ramp = f"ks_ramp({start}, {stride})"
            return ramp if wide is kind.element else f"__builtin_convertvector({ramp}, {target})"
        if isinstance(rep, Digit):
            digits = f"ks_digit({self.x}, {rep.step}, {rep.size})"
            return digits if kind.element is Element.I32 else f"ks_convert<{target}>({digits})"
        if isinstance(rep, Prefix):
            return f"ks_first({rep.count} - {self.x})"
        if isinstance(rep, Uniform):
            code = f"-(i32){rep.code}" if kind.is_predicate else rep.code
            return f"ks_splat<{target}>({code})"
        raise TypeError("pointers have no plain lanes")

    def _at_x(self, rep: Linear, element: Element) -> str:
        unsigned = f"u{element.bits}"
        return f"({unsigned}){rep.base} + ({unsigned}){rep.stride} * ({unsigned}){self.x}"

    def address(self, rep: Linear, size: int) -> str:
        """Address of element x of a linear pointer, for elements of `size` bytes."""
        stride = size * rep.stride if isinstance(rep.stride, int) else f"{size} * (i64){rep.stride}"
        return f"{rep.base} + {stride} * {self.x}"


def element_address(base: str, size: int, offset: str) -> str:
    """Address of an element `offset` elements of `size` bytes behind a `char *`."""
    return base if offset == "0" else f"{base} + {size} * (i64){offset}"
