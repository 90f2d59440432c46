"""Reading and writing memory: the kernel's own arrays and the caller's tensors, a vector at a time.

A contiguous run is a vector access, a strided or scattered one goes lane by lane, and a uniform one is a scalar.
Masked-off lanes are never touched.
"""

from __future__ import annotations

from typing import NamedTuple

from kernelsmith.triton_cpu.emit import affine
from kernelsmith.triton_cpu.emit.loop import Index, Loop, Varies, element_address
from kernelsmith.triton_cpu.emit.names import array_element, literal, stored, vector_type
from kernelsmith.triton_cpu.emit.reps import Linear, Offsets, Prefix, Rep, Uniform, Vector
from kernelsmith.triton_cpu.emit.streaming import far_condition
from kernelsmith.triton_cpu.errors import UnsupportedConstruct
from kernelsmith.triton_cpu.read.ir import Dense, Element, Op, Type, Value

_TRUE = Uniform("true")


class Snapshot(NamedTuple):
    """An array that a load reads instead where `near`, a variable, is true."""

    near: str
    array: str


_ADDRESS = Type(Element.I64)


def addresses(loop: Loop, rep: Rep, size: int) -> str:
    """Byte addresses of a pointer's lanes, a vi64."""
    if isinstance(rep, Uniform):
        return f"ks_splat<vi64>((i64){rep.code})"
    if isinstance(rep, Linear):
        return f"ks_ramp((i64)({loop.address(rep, size)}), {size} * (i64){rep.stride})"
    if isinstance(rep, Offsets):
        lanes = rep.lanes if rep.in_bytes else f"__builtin_convertvector({rep.lanes}, vi64) * {size}"
        return f"ks_splat<vi64>((i64){rep.base}) + {lanes}"
    raise TypeError("a pointer has one of the three pointer forms")


def at_addresses(loop: Loop, lanes: str) -> Offsets:
    """Pointers whose byte addresses are a vi64."""
    return Offsets("(char *)0", loop.vector(_ADDRESS, lanes, "address").code, wide=True, in_bytes=True)


def read_array(loop: Loop, array: str, kind: Type, index: Index) -> Rep:
    """The elements at `index` of a row-major array."""
    element = array_element(kind)
    flat = affine.flatten(loop, index, kind.shape)
    rep: Rep
    if isinstance(flat, Uniform):
        stored = Type(element)
        code = f"ks_get_{element.value}({element_address(array, element.bytes, flat.code)})"
        if kind.pointer:
            return Uniform(loop.scalar(kind.with_shape(()), f"(char *){code}", "p"))
        return Uniform(loop.scalar(stored, code, "e"))
    if loop.past is not None:
        reach, rest = loop.scope.endings.get(array, ("", ""))
        if not reach or flat != Linear("0", 1):
            raise Varies
        loop.past[reach] = None
        return Uniform(rest)
    loop.reads_arrays = True
    if isinstance(flat, Linear) and flat.stride == 1:
        address = loop.address(Linear(element_address(array, element.bytes, flat.base), 1), element.bytes)
        rep = loop.vector(Type(element), f"ks_load_{element.value}({address})", "r")
    elif isinstance(flat, Linear):
        address = loop.address(Linear(element_address(array, element.bytes, flat.base), flat.stride), element.bytes)
        rep = loop.vector(Type(element), f"ks_strided_{element.value}({address}, {flat.stride})", "r")
    else:
        rep = loop.vector(
            Type(element), f"ks_gather_{element.value}({array}, {loop.as_vector(flat, Type(Element.I32))})", "r"
        )
    return at_addresses(loop, rep.code) if kind.pointer else rep


def read_constant(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    """arith.constant: a literal, or a table if its elements differ."""
    dense = op.attributes["value"]
    if not isinstance(dense, Dense):
        raise UnsupportedConstruct(op.name, "a constant without elements", op.location)
    if len(dense.bits) == 1:
        code = literal(dense.bits[0], value.type.element)
        if not value.type.is_integer:
            return Uniform(loop.scalar(value.type.with_shape(()), code, "c"))
        return Uniform(code if code.isalnum() else f"({code})")
    element = array_element(value.type)
    table = loop.scope.fresh(value.name)
    entries = ", ".join(str(bits) if element.is_half else literal(bits, element) for bits in dense.bits)
    storage = "u8" if element is Element.I1 else "u16" if element.is_half else element.value
    loop.scope.write(f"alignas(64) static const {storage} {table}[{len(dense.bits)}] = {{{entries}}};")
    return read_array(loop, f"((char *){table})", value.type, index)


def read_other_vector(loop: Loop, array: str, kind: Type, step: int) -> Rep:
    """Of a loop over all of an array, the elements whose positions differ from x in one bit, of a vector or more."""
    loop.reads_arrays = True
    element = array_element(kind)
    address = f"{array} + {element.bytes} * ({loop.x} ^ {step})"
    return loop.vector(kind, f"ks_load_{element.value}({address})", "r")


def swapped_lanes(loop: Loop, rep: Rep, kind: Type, step: int) -> Rep:
    """Every lane's value at the lane whose number differs in one bit."""
    if isinstance(rep, Uniform):
        return rep
    return loop.vector(kind, f"ks_swap({loop.as_vector(rep, kind)}, {step})", "r")


def write_array(loop: Loop, array: str, kind: Type, index: Index, rep: Rep) -> None:
    """Put the elements at `index` into a row-major array."""
    element = array_element(kind)
    flat = affine.flatten(loop, index, kind.shape)
    if isinstance(flat, Uniform):
        if not isinstance(rep, Uniform):
            raise TypeError("one place holds one element")
        code = f"(i64){rep.code}" if kind.pointer else rep.code
        loop.body.append(f"ks_put_{element.value}({element_address(array, element.bytes, flat.code)}, {code});")
        return
    lanes = addresses(loop, rep, kind.element.bytes) if kind.pointer else loop.as_vector(rep, kind)
    if isinstance(flat, Linear):
        address = loop.address(Linear(element_address(array, element.bytes, flat.base), flat.stride), element.bytes)
        if flat.stride == 1:
            loop.body.append(f"ks_store_{element.value}({address}, {lanes});")
        else:
            loop.body.append(f"ks_scatter_{element.value}({address}, ks_ramp(0, {flat.stride}), {lanes});")
    else:
        loop.body.append(f"ks_scatter_{element.value}({array}, {loop.as_vector(flat, Type(Element.I32))}, {lanes});")


def load_lanes(loop: Loop, value: Value, pointer: Rep, mask: Rep, other: Rep) -> Rep:
    """tt.load at one index; masked-off lanes yield `other`."""
    kind = value.type
    element = stored(kind.element).value
    if isinstance(pointer, Uniform) and isinstance(mask, Uniform):
        code = f"ks_get_{element}({pointer.code})"
        conditions = [*loop.reached(), *([mask.code] if mask != _TRUE else [])]
        if mask == _TRUE or isinstance(other, Uniform):
            if conditions:
                code = f"{' && '.join(conditions)} ? {code} : {other.code if isinstance(other, Uniform) else '0'}"
            return Uniform(loop.scalar(kind.with_shape(()), code, value.name))
    default = loop.as_vector(other, kind)
    place, lanes = place_of(loop, pointer, kind)
    if isinstance(mask, Uniform):
        code = _unmasked(element, pointer, place, lanes)
        if mask == _TRUE:
            return loop.vector(kind, code, value.name)
        name = loop.scope.fresh(value.name)
        loop.body.append(f"{vector_type(kind)} {name} = {default};")
        loop.body.append(f"if ({mask.code}) {name} = {code};")
        return Vector(name)
    chosen = loop.as_vector(mask, kind.with_element(Element.I1))
    if isinstance(pointer, Linear) and pointer.stride == 1:
        return loop.vector(kind, f"ks_load_{element}({place}, {chosen}, {default})", value.name)
    return loop.vector(kind, f"ks_gather_{element}({place}, {lanes}, {chosen}, {default})", value.name)


def _unmasked(element: str, pointer: Rep, place: str, lanes: str) -> str:
    if isinstance(pointer, Uniform):
        return f"ks_splat<{_stored_vector(element)}>(ks_get_{element}({place}))"
    if isinstance(pointer, Linear):
        if pointer.stride == 1:
            return f"ks_load_{element}({place})"
        return f"ks_strided_{element}({place}, {pointer.stride})"
    return f"ks_gather_{element}({place}, {lanes})"


def _stored_vector(element: str) -> str:
    return vector_type(Type(Element(element)))


def from_snapshot(loop: Loop, pointer: Rep, snapshot: Snapshot, kind: Type) -> Rep:
    """The pointers of a load at the loop's own index, to memory or to the snapshot of it."""
    near, array = snapshot
    size = kind.element.bytes
    flat = affine.flatten(loop, loop.index, kind.shape)

    def either(base: str, place: str) -> str:
        return loop.scalar(Type(Element.I8, (), pointer=True), f"{near} ? {place} : {base}", "p")

    if isinstance(pointer, Uniform) and isinstance(flat, Uniform):
        return Uniform(either(pointer.code, element_address(array, size, flat.code)))
    if isinstance(pointer, Linear) and isinstance(flat, Linear) and flat.stride == 1:
        stride = pointer.stride
        if stride != 1:
            stride = loop.scalar(_ADDRESS, f"{near} ? 1l : (i64){stride}")
        return Linear(either(pointer.base, element_address(array, size, flat.base)), stride)
    moved = pointer if isinstance(pointer, Offsets) else at_addresses(loop, addresses(loop, pointer, size))
    lanes = place_of(loop, moved, kind)[1]
    chosen = (
        f"ks_select({near}, ks_convert<vi64>({loop.as_vector(flat, Type(Element.I32))}), ks_convert<vi64>({lanes}))"
    )
    return Offsets(either(moved.base, array), loop.vector(_ADDRESS, chosen, "offset").code, wide=True)


def place_of(loop: Loop, pointer: Rep, kind: Type) -> tuple[str, str]:
    """Where lane 0 is, and the lanes' offsets from there in elements."""
    if isinstance(pointer, Uniform):
        return pointer.code, "vi32{}"
    if isinstance(pointer, Linear):
        return loop.address(pointer, kind.element.bytes), f"ks_ramp((i64)0, (i64){pointer.stride})"
    if isinstance(pointer, Offsets):
        shift = kind.element.bytes.bit_length() - 1
        return pointer.base, f"({pointer.lanes} >> {shift})" if pointer.in_bytes else pointer.lanes
    raise TypeError("a pointer has one of the three pointer forms")


def store_lanes(loop: Loop, kind: Type, pointer: Rep, rep: Rep, mask: Rep, *, streams: bool = False) -> None:
    """tt.store at one index; with `streams`, past the caches where that pays."""
    element = stored(kind.element).value
    if isinstance(pointer, Uniform) and isinstance(mask, Uniform) and isinstance(rep, Uniform):
        guard = "" if mask == _TRUE else f"if ({mask.code}) "
        loop.body.append(f"{guard}ks_put_{element}({pointer.code}, {rep.code});")
        return
    place, lanes = place_of(loop, pointer, kind)
    data = loop.as_vector(rep, kind)
    contiguous = isinstance(pointer, Linear) and pointer.stride == 1
    if isinstance(mask, Uniform):
        guard = "" if mask == _TRUE else f"if ({mask.code}) "
        far = far_condition(loop, pointer, kind.element.bytes) if streams and isinstance(pointer, Linear) else None
        if contiguous and far is not None:
            call = f"ks_stream_{element}({place}, {data}, {far});"
        elif contiguous:
            call = f"ks_store_{element}({place}, {data});"
        else:
            call = f"ks_scatter_{element}({place}, {lanes}, {data});"
        loop.body.append(guard + call)
        return
    if isinstance(mask, Prefix):
        loop.last = mask.count
    chosen = loop.as_vector(mask, kind.with_element(Element.I1))
    if contiguous:
        loop.body.append(f"ks_store_{element}({place}, {chosen}, {data});")
    else:
        loop.body.append(f"ks_scatter_{element}({place}, {lanes}, {chosen}, {data});")
