"""Answers with NaN, infinities and doubled keys; refused in good order."""


def act(stage):
    return b'{"kind": "sampled", "kind": "sampled", "nanoseconds": [NaN, Infinity, -1, 1e999], "state_intact": 2}'


def twin(stage):
    return b'{"kind": "repeated"}'
