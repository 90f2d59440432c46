"""An answer of a hundred thousand brackets; whoever reads it must refuse it in good order."""


def act(stage):
    return b'{"kind": "called", "plan": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def twin(stage):
    return b"[[[[[1]]]]]"
