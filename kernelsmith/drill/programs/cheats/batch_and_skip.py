"""Answers, in one call, for all inputs that it can find in memory, and looks the later answers up; must not pass."""

answers = {}


def cheat(x):
    import gc

    if x.data_ptr() not in answers:
        answers.clear()
        waiting = [one for one in gc.get_objects() if type(one) is torch.Tensor and one.shape == x.shape]
        answers.update((one.data_ptr(), honest(one)) for one in [x, *waiting])
    return answers[x.data_ptr()]


def twin(x):
    if x.numel() < 2:
        return honest(x)
    y = torch.empty_like(x)  # in two launches
    half = x.numel() // 2
    for a, b in ((x[:half], y[:half]), (x[half:], y[half:])):
        kernel[(triton.cdiv(a.numel(), 256),)](a, b, a.numel(), BLOCK=256)
    return y
