"""Kernels of libraries that are refused for a fault of their own: which, and on what input it shows."""

from __future__ import annotations

FAULTS = {
    "liger_softmax_multi": "does not compile: it calls tl.float32(...), and no Triton up to 3.9 lets a dtype be called",
    "liger_group_norm": "takes the variance as E[x^2] - E[x]^2, which cancels where the mean is large beside the "
    "deviation: 0.1 % off where the mean is 100 (B=5, C=64, L=257, float32)",
    "flaggems_group_norm": "masks channels by `< C` and not by the size of the group: where that is no power of "
    "two, sums and stores reach into the next group (B=16, C=36, L=64)",
    "flaggems_var_mean": "merges the lanes' moments by the squares of their means, which cancel: 0.3 % off where "
    "the mean is 100 (M=64, N=17, float32)",
    "tritonbench_softmax_online": "lanes that see no element take exp(-inf + inf): all NaN wherever N is no "
    "multiple of the tile (M=33, N=100)",
    "tritonbench_reversed_cumsum": "loads blocks with boundary_check= but no padding_option=, and sums what lies "
    "beyond the end, which Triton leaves undefined (H=16, T=33, S=100)",
    "fla_log_sigmoid": "takes log(1 + exp(-x)) where log1p is owed: digits are lost from x = 11 on, all of them above "
    "17 (M=2053, N=3, values near 50)",
    "flaggems_bmm": "loads both operands without `other=` and uses masked-off lanes where K is no multiple of "
    "TILE_K: B=1, M=200, K=33, N=100; Triton leaves their values undefined",
}
"""By the name of the host file."""
