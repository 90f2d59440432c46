"""A compiled Triton kernel as plan data: its TTIR, the types and values that reach the device, and its options.

Invariant: an option that changes what the kernel computes either travels in the plan or is refused by name. The
recording asks; nothing here knows of buffers beyond the `Addresses` it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import torch

from kernelsmith.plan import ALLOWED_OPTIONS, MAX_KERNELS, Argument, Kernel, NullArgument, ScalarArgument

_IGNORED_OPTIONS = frozenset(
    {
        "debug",  # has already decided which assertions stand in the TTIR, as has the next
        "sanitize_overflow",
        "instrumentation_mode",
        "backend_name",
        "arch",
        "hash",
        "ptx_version",
        "warp_size",
        "cluster_dims",  # follows from num_ctas
        "given",  # says which of the others the launch named
    }
)
_PARAMETER = re.compile(r"%[\w.$-]+\s*:")


class Addresses(Protocol):
    """Turns what a kernel is given for a pointer into an argument of the plan."""

    def pointer(self, tensor: torch.Tensor) -> Argument: ...

    def address(self, value: int) -> Argument | None: ...


@lru_cache(maxsize=MAX_KERNELS)
def kernel_of(compiled: Any) -> Kernel:
    """Raises ValueError for an option that may not travel, or where TTIR and signature disagree."""
    ttir = compiled.asm.get("ttir")
    if not isinstance(ttir, str):
        raise ValueError("it was not compiled from Triton's own language")
    return Kernel(
        name=compiled.name,
        ttir=ttir,
        signature=device_signature(compiled.src.signature, ttir),
        options=_options(compiled),
    )


def kernel_arguments(compiled: Any, arguments: Sequence[Any], addresses: Addresses) -> tuple[Argument, ...]:
    """The values that reach the device, in the order of the TTIR function's parameters."""
    leaves = list(_leaves(list(compiled.src.signature.values()), arguments))
    flags = _descriptor_flags(compiled, leaves)
    planned = [a for kind, value in leaves for a in _argument(kind, value, flags, addresses)]
    expected = _parameter_count(compiled.asm["ttir"])
    if len(planned) != expected:
        raise ValueError(f"{len(planned)} arguments for {expected} parameters of {compiled.name}")
    return tuple(planned)


def _leaves(kinds: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Types and values in nested tuples of parameters, constexprs left out (Triton makes value 1 and None such)."""
    for kind, value in zip(kinds, values, strict=True):
        if isinstance(kind, (tuple, list)):
            yield from _leaves(kind, value)
        elif kind != "constexpr":
            yield kind, value


def _argument(kind: str, value: Any, flags: int, addresses: Addresses) -> list[Argument]:
    if kind.startswith("tensordesc"):
        extent: list[Argument] = [ScalarArgument(value=int(n)) for n in (*value.shape, *value.strides)]
        given = [int(getattr(value, "padding", "zero") == "nan"), int(bool(getattr(value, "round_f32_to_tf32", False)))]
        described: list[Argument] = [ScalarArgument(value=bool(flag)) for flag in given[:flags]]
        return [addresses.pointer(value.base), *extent, *described, *extent]
    if isinstance(value, torch.Tensor):
        return [addresses.pointer(value)]
    if kind.startswith("*"):
        if value is None:
            return [NullArgument()]
        pointer = addresses.address(int(value if isinstance(value, int) else value.data_ptr()))
        if pointer is None:
            raise ValueError("it is given an address that lies in none of the call's tensors")
        return [pointer]
    if kind in ("i1", "u1"):
        return [ScalarArgument(value=bool(value))]
    if kind.startswith(("i", "u")):
        number = int(value)
        return [addresses.address(number) or ScalarArgument(value=number)]
    return [ScalarArgument(value=repr(float(value)))]


def _descriptor_flags(compiled: Any, leaves: Sequence[tuple[str, Any]]) -> int:
    """How many flags Triton's rewriting of a descriptor passes after shape and strides: one, since 3.7 two."""
    descriptors = [value for kind, value in leaves if kind.startswith("tensordesc")]
    if not descriptors:
        return 0
    least = len(leaves) + sum(4 * len(value.shape) for value in descriptors)
    return (_parameter_count(compiled.asm["ttir"]) - least) // len(descriptors)


def device_signature(signature: Mapping[str, Any], ttir: str) -> tuple[str, ...]:
    """Types of what reaches the device, from an AST signature, or from the TTIR where Triton rewrites parameters."""
    kinds = list(signature.values())
    leaves = [kind for kind, _ in _leaves(kinds, kinds)]
    if any(kind.startswith("tensordesc") for kind in leaves):
        return _parameter_types(ttir)
    return tuple(leaves)


def given_options(metadata: Any) -> frozenset[str]:
    """Names of the options that the launch named: as our own backend notes, elsewhere those that are not at their
    default."""
    if (given := getattr(metadata, "given", None)) is not None:
        return frozenset(given)
    defaults = _default_options(metadata.target)
    values = {name: getattr(metadata, name, default) for name, default in defaults.items()}
    return frozenset(name for name, value in values.items() if _plain(value) != _plain(defaults[name]))


def _options(compiled: Any) -> dict[str, int | bool | None]:
    """Options of the launch that travel; one that is neither allowed, ignored nor at its default is refused."""
    given = {name: getattr(compiled.metadata, name) for name in compiled.metadata._fields}
    for name, default in _default_options(compiled.metadata.target).items():
        value = given.get(name, default)
        if name not in ALLOWED_OPTIONS | _IGNORED_OPTIONS and _plain(value) != _plain(default):
            raise ValueError(f"option {name}={value!r} may not be set")
    return {name: given[name] for name in sorted(ALLOWED_OPTIONS & given.keys())}


@lru_cache(maxsize=8)
def _default_options(target: Any) -> dict[str, Any]:
    from triton.compiler.compiler import make_backend

    return dict(vars(make_backend(target).parse_options({})))


def _plain(value: Any) -> Any:
    """Equal for equal options, whether or not they went through JSON."""
    return [_plain(v) for v in value] if isinstance(value, (tuple, list)) else value


@lru_cache(maxsize=256)
def _parameters(ttir: str) -> str:
    """What stands between the parentheses of the public function."""
    start = ttir.find("tt.func public @")
    begin = ttir.find("(", start) + 1
    if start < 0 or begin == 0:
        raise ValueError("its TTIR has no public function")
    depth, quoted = 1, False
    for at in range(begin, len(ttir)):
        char = ttir[at]
        if char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char == "(") - (char == ")")
            if depth == 0:
                return ttir[begin:at]
    raise ValueError("its TTIR ends in the middle of a function")


def _parameter_count(ttir: str) -> int:
    return len(_PARAMETER.findall(_parameters(ttir)))


def parameter_names(ttir: str) -> tuple[str, ...]:
    """Names of the parameters that reach the device, as the kernel's author wrote them where the TTIR tells."""
    return tuple(found[1:-1].strip() for found in _PARAMETER.findall(_parameters(ttir)))


def _parameter_types(ttir: str) -> tuple[str, ...]:
    """Types as TTIR spells them, for functions whose parameters Triton has rewritten."""
    return tuple(re.findall(r"%[\w.$-]+\s*:\s*(!?[\w.]+(?:<[^>{]*>+)?)", _parameters(ttir)))
