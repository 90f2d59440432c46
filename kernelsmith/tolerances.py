"""A team's acceptance rules by name: how far each dtype may be off, whatever the operator and the inputs.

They take the place of the bound that is measured per operator and input (evaluate/truth/bounds.py), where a team must
prove what its own harness would say. Those of known projects are built in; a team writes its own into its settings:

    [tolerances.ours]
    float32 = { rtol = 1e-5, atol = 1e-6 }
    bfloat16 = { rtol = 2e-2, atol = 1e-3 }

Frozen records; no torch. NaN, infinities, dtypes and shapes stay exact under every policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from kernelsmith.base import Frozen
from kernelsmith.errors import OperatorError, UsageError

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
)
"""What a policy may speak of; complex numbers are held to the rule of their parts."""
PARTS = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}
EXAMPLE = "float32 = { rtol = 1e-5, atol = 1e-6 }"
RESERVED = ("measured", "exact")
"""Words that evidence uses for what is no policy."""


class Tolerance(Frozen):
    """An answer may be `atol + rtol * |truth|` from the truth."""

    rtol: float = Field(ge=0, lt=1, allow_inf_nan=False)
    atol: float = Field(ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.rtol == self.atol == 0:
            raise ValueError("rtol and atol cannot both be 0: no honest kernel gives every last bit of the truth")
        return self


class Policy(Frozen):
    """An acceptance rule: a tolerance per dtype of the output."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")
    dtypes: dict[str, Tolerance] = Field(min_length=1)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.name in RESERVED:
            raise ValueError(f"`{self.name}` is no name for a policy")
        if unknown := [dtype for dtype in self.dtypes if dtype not in DTYPES]:
            raise ValueError(f"unknown dtype `{unknown[0]}`; known: {', '.join(DTYPES)}")
        return self

    def tolerance(self, dtype: str) -> Tolerance:
        """Raises OperatorError for a dtype that the policy says nothing about."""
        found = self.dtypes.get(PARTS.get(dtype, dtype))
        if found is None:
            raise OperatorError(
                f"the tolerance policy `{self.name}` says nothing about {dtype}, which an output has",
                f"it knows {', '.join(self.dtypes)}: add a line for {dtype}, or name another policy",
            )
        return found

    def describe(self) -> str:
        """What users are told wherever a verdict rests on it."""
        rules = (f"{dtype}: rtol {one.rtol:.3g}, atol {one.atol:.3g}" for dtype, one in self.dtypes.items())
        return f"held to the tolerance policy {self.name} ({'; '.join(rules)}) instead of the measured bound"


def _policy(name: str, **dtypes: tuple[float, float]) -> Policy:
    return Policy(name=name, dtypes={dtype: Tolerance(rtol=r, atol=a) for dtype, (r, a) in dtypes.items()})


_E4M3, _E5M2 = 2.0**-4, 2.0**-3
"""Half the spacing at 1: less would reject the nearest number there is. The sources below give none of use."""
TORCH = _policy(
    "torch",
    float64=(1e-7, 1e-7),
    float32=(1.3e-6, 1e-5),
    float16=(1e-3, 1e-5),
    bfloat16=(1.6e-2, 1e-5),
    float8_e4m3fn=(_E4M3, 2.0**-10),
    float8_e5m2=(_E5M2, 2.0**-17),
)
BUILT_IN = (
    TORCH,
    _policy(
        "kernelbench",
        float64=(1e-4, 1e-4),
        float32=(1e-4, 1e-4),
        float16=(1e-2, 1e-2),
        bfloat16=(1e-2, 1e-2),
        float8_e4m3fn=(_E4M3, 1e-2),
        float8_e5m2=(_E5M2, 1e-2),
    ),
    _policy(
        "ascend",
        float64=(2**-10, 1e-7),
        float32=(2**-10, 1e-7),
        float16=(2**-7, 1e-7),
        bfloat16=(2**-4, 1e-7),
    ),
)
"""torch.testing.assert_close's defaults; KernelBench's get_tolerance_for_precision; the Ascend precision standard's
largest relative error (10 T)."""


def find(name: str, own: Sequence[Policy]) -> Policy:
    """The policy of that name; a team's own ones come before those that are built in.

    Raises OperatorError for a name that nobody defined.
    """
    known = {policy.name: policy for policy in (*BUILT_IN, *own)}
    if name not in known:
        raise OperatorError(
            f"the tolerance policy {name!r} is not known",
            f"known: {', '.join(known)}; define your own as [tolerances.{name}] in kernelsmith.toml",
        )
    return known[name]


def read(table: object, file: str) -> tuple[Policy, ...]:
    """Policies from the `[tolerances.NAME]` tables of a file; raises UsageError for what is wrong with one."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{file}: tolerances = {table!r} is no table", f"write [tolerances.NAME], then {EXAMPLE}")
    return tuple(_read_one(str(name), dtypes, file) for name, dtypes in table.items())


def merged(further: Sequence[Policy], nearer: Sequence[Policy]) -> tuple[Policy, ...]:
    """Of two files' policies with one name, the nearer file's."""
    return tuple({policy.name: policy for policy in (*further, *nearer)}.values())


def _read_one(name: str, dtypes: Any, file: str) -> Policy:
    try:
        return Policy.model_validate({"name": name, "dtypes": dtypes})
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f", {part}" for part in first["loc"] if part not in ("dtypes", "name"))
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(f"{file}: [tolerances.{name}]{place}: {reason}", f"a line per dtype: {EXAMPLE}") from error
