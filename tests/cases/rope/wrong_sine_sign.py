"""Wrong: turns the other way."""

import triton
import triton.language as tl


@triton.jit
def rope_kernel(x, cos, sin, start, heads, d, BLOCK: tl.constexpr):
    place, head = tl.program_id(0), tl.program_id(1)
    pair = tl.arange(0, BLOCK)
    inside = pair < d
    c = tl.load(cos + (start + place) * d + pair, mask=inside)
    s = tl.load(sin + (start + place) * d + pair, mask=inside)
    here = x + (place * heads + head) * 2 * d
    even = tl.load(here + 2 * pair, mask=inside).to(tl.float32)
    odd = tl.load(here + 2 * pair + 1, mask=inside).to(tl.float32)
    tl.store(here + 2 * pair, even * c + odd * s, mask=inside)
    tl.store(here + 2 * pair + 1, odd * c - even * s, mask=inside)


def rope(x, cos, sin, start):
    length, heads, d = x.shape[0], x.shape[1], x.shape[2] // 2
    rope_kernel[(length, heads)](x, cos, sin, start, heads, d, BLOCK=triton.next_power_of_2(d))
    return x
