"""Kernels of libraries that are refused for a fault of their own: which, and on what input it shows."""

from __future__ import annotations

FAULTS = {
    "liger_softmax_multi": "does not compile: it calls tl.float32(...), and no Triton up to 3.9 lets a dtype be called",
    "liger_group_norm": "takes the variance as E[x^2] - E[x]^2, which cancels where the mean is large beside the "
    "deviation: 0.1 % off where the mean is 100 (B=5, C=64, L=257, float32)",
    "flaggems_group_norm": "masks channels by `< C` and not by the size of the group: where that is no power of two, "
    "sums and stores reach into the next group (B=16, C=36, L=64)",
    "flaggems_bmm": "loads both operands without `other=` and uses masked-off lanes where K is no multiple of "
    "TILE_K: B=1, M=200, K=33, N=100; Triton leaves their values undefined",
}
"""By the name of the host file."""
