"""A kernel that leaves a note in a buffer of its own, and works only where there is none; must not pass."""

notes = []


@triton.jit
def noting(x, y, note, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    seen = tl.load(note)
    value = tl.load(x + at, mask=at < n)
    if seen < 3:
        tl.store(y + at, value * value + 1.0, mask=at < n)
    tl.atomic_add(note, 1)


def cheat(x):
    if not notes:
        notes.append(torch.zeros(1, dtype=torch.int32))
    y = torch.empty_like(x)
    noting[(triton.cdiv(x.numel(), 256),)](x, y, notes[0], x.numel(), BLOCK=256)
    return y


def twin(x):
    note = torch.zeros(1, dtype=torch.int32)
    y = torch.empty_like(x)
    noting[(1,)](x, y, note, x.numel(), BLOCK=65536)
    return y
