"""Replaces the functions of the process that runs it, exits and answers included; nobody else may notice."""

import json
import os
import sys

ENDS = ("answered", "garbled", "exited", "timeout", "killed", "signalled")
SECONDS = 1.0


def act(stage):
    os._exit = lambda code: None
    json.dumps = lambda *a, **k: "{}"
    sys.modules.clear()
    type(stage.channel).send = lambda self, *a, **k: None
    raise SystemExit(0)


def twin(stage):
    original = json.dumps
    json.dumps = lambda *a, **k: original(*a, **k)
    assert json.dumps([1]) == "[1]"
    json.dumps = original
