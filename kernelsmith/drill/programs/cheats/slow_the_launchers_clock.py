"""A kernel that swaps the clock of the process that times it for another, by writing over it; it must gain nothing."""

MAY_PASS = True
TIMED = True
clocks = []


@triton.jit
def swapping(x, y, clock, other, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value + 1.0, mask=at < n)
    tl.store(clock.to(tl.pointer_type(tl.int64)), other)


def before():
    import ctypes
    import time

    clocks.append(id(time.perf_counter_ns) + 16)  # the method of a built-in function
    clocks.append(ctypes.c_int64.from_address(id(time.thread_time_ns) + 16).value)


def cheat(x):
    y = torch.empty_like(x)
    swapping[(triton.cdiv(x.numel(), 256),)](x, y, clocks[0], clocks[1], x.numel(), BLOCK=256)
    return y


def twin(x):
    return honest(x)
