"""Fills memory until something gives; must end as `memory`."""

ENDS = ("memory",)


def act(stage):
    hoard = []
    for _ in range(64):
        hoard.append(b"x" * (16 << 20))
    return len(hoard)


def twin(stage):
    hoard = [b"x" * (16 << 20) for _ in range(4)]
    assert sum(map(len, hoard)) == 64 << 20
