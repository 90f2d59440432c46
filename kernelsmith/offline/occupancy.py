"""How many programs of a kernel one multiprocessor holds at once: arithmetic on numbers of the target's file.

Rounding follows NVIDIA's occupancy calculator and AMD's hardware description alike: registers are given to each warp
in multiples of a unit, warps are spread over partitions that have an equal part of the registers each, and every
resident program takes a fixed part of the shared memory beside its own. Pure; tested against values computed by hand.
"""

from __future__ import annotations

from kernelsmith.compiled import Limiter, Occupancy, Resources
from kernelsmith.targets import Multiprocessor


def occupancy(taken: Resources, chip: Multiprocessor, warp_size: int) -> Occupancy | None:
    """None where the target's file or the compiler does not tell enough."""
    if chip.warps is None or taken.warps > chip.warps:
        return None
    bounds = {
        Limiter.WARPS: chip.warps // taken.warps,
        Limiter.THREADS: _quotient(chip.threads, taken.threads),
        Limiter.PROGRAMS: chip.blocks,
        Limiter.REGISTERS: _by_registers(taken, chip, warp_size),
        Limiter.SHARED: _by_shared_memory(taken, chip),
    }
    known = {limiter: most for limiter, most in bounds.items() if most is not None}
    limiter = min(known, key=lambda one: known[one])  # the first of equals: more of a later one would not help
    programs = known[limiter]
    warps = programs * taken.warps
    return Occupancy(programs=programs, warps=warps, share=warps / chip.warps, limiter=limiter)


def _by_registers(taken: Resources, chip: Multiprocessor, warp_size: int) -> int | None:
    if not taken.registers or chip.registers is None:
        return None
    unit, partitions = chip.register_unit or 1, chip.partitions or 1
    per_warp = -(-taken.registers * warp_size // unit) * unit
    warps = chip.registers // partitions // per_warp * partitions
    return warps // taken.warps


def _by_shared_memory(taken: Resources, chip: Multiprocessor) -> int | None:
    per_program = (taken.shared_bytes or 0) + (chip.shared_memory_reserved_bytes or 0)
    return _quotient(chip.shared_memory_bytes, per_program)


def _quotient(there: int | None, taken: int) -> int | None:
    return None if there is None or not taken else there // taken
