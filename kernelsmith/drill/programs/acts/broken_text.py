"""Answers with broken UTF-8 and lone surrogates, which no printer takes; refused in good order."""


def act(stage):
    return b'{"kind": "failed", "outcome": "crashed", "message": "\\ud800\xff\xfe", "trace": ""}'


def twin(stage):
    return '{"kind": "failed", "outcome": "crashed", "message": "größer 漢字", "trace": ""}'.encode()
