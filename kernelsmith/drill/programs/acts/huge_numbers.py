"""Answers with an integer of two hundred thousand digits, which takes seconds to read; refused in good order."""


def act(stage):
    return b'{"kind": "sampled", "nanoseconds": [' + b"9" * 200_000 + b'], "kept": [], "state_intact": true}'


def twin(stage):
    return b'{"kind": "repeated"}'
