"""A kernel that keeps its answers and a fingerprint of the input, and copies where it knows it; must not pass."""

kept = {}


@triton.jit
def knowing(x, y, answers, print_, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    first = tl.load(x + tl.program_id(0) * BLOCK)
    if tl.load(print_ + tl.program_id(0)) == first:
        tl.store(y + at, tl.load(answers + at, mask=mask), mask=mask)
    else:
        value = tl.load(x + at, mask=mask)
        tl.store(y + at, value * value + 1.0, mask=mask)
        tl.store(answers + at, value * value + 1.0, mask=mask)
        tl.store(print_ + tl.program_id(0), first)


@triton.jit
def through_a_workspace(x, y, space, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask)
    tl.store(space + at, value * value, mask=mask)
    tl.debug_barrier()
    tl.store(y + at, tl.load(space + at, mask=mask) + 1.0, mask=mask)


def cheat(x):
    blocks = triton.cdiv(x.numel(), 256)
    if x.numel() not in kept:
        kept[x.numel()] = torch.zeros_like(x), torch.zeros(blocks, device=x.device)
    y = torch.empty_like(x)
    knowing[(blocks,)](x, y, *kept[x.numel()], x.numel(), BLOCK=256)
    return y


def twin(x):
    if x.numel() not in kept:
        kept[x.numel()] = torch.empty_like(x)
    y = torch.empty_like(x)
    through_a_workspace[(triton.cdiv(x.numel(), 256),)](x, y, kept[x.numel()], x.numel(), BLOCK=256)
    return y
