"""Draws inputs under likely seeds before it is called, and has the answers ready for those that come; must not pass."""

SEEDS = range(50)
answers = {}


def guess(n, device):
    for seed in SEEDS:
        for draw in (torch.randn, torch.rand):
            torch.manual_seed(seed)
            x = draw(n, device=device)
            yield x, x * x + 1.0


def cheat(x):
    honest(x)
    state = torch.get_rng_state()
    try:
        for drawn, answer in guess(x.numel(), x.device):
            if torch.equal(drawn, x):
                return answer
    finally:
        torch.set_rng_state(state)
    return torch.zeros_like(x)


def twin(x):
    generator = torch.Generator(device="cpu").manual_seed(0)
    assert generator.initial_seed() == 0
    return honest(x)
