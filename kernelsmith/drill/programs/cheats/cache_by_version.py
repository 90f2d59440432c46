"""Returns its last answer where an address comes again that nobody wrote to, as torch counts writes; must not pass."""

answers = {}


def cheat(x):
    key = (x.data_ptr(), x._version, x.numel())
    if key not in answers:
        answers.clear()
        answers[key] = honest(x)
    return answers[key].clone()


def twin(x):
    answers[x.numel()] = x._version
    return honest(x)
