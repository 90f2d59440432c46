"""What became of a candidate, at which stage, and how thoroughly it was checked."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    PASSED = "passed"
    REJECTED = "rejected"
    NO_CODE = "no_code"
    PATCH_FAILED = "patch_failed"
    COMPILE_ERROR = "compile_error"
    RESOURCE_LIMIT = "resource_limit"
    RUNTIME_ERROR = "runtime_error"
    WRONG_VALUES = "wrong_values"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    MUTATED_INPUT = "mutated_input"
    OUT_OF_BOUNDS = "out_of_bounds"
    UNINITIALIZED_READ = "uninitialized_read"
    RACE = "race"
    INT_OVERFLOW = "int_overflow"
    NOT_IN_PLAN = "not_in_plan"
    NONDETERMINISTIC = "nondeterministic"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    SANDBOX_VIOLATION = "sandbox_violation"
    CRASHED = "crashed"


class Stage(StrEnum):
    """Where in the flow a verdict fell."""

    PARSE = "parse"
    SCREEN = "screen"
    LOAD = "load"
    RECORD = "record"
    COMPILE = "compile"
    CHECK = "check"
    BENCH = "bench"


class Level(StrEnum):
    QUICK = "quick"
    FULL = "full"
    EXHAUSTIVE = "exhaustive"
