"""Answers again and again, before it is asked; at most it is believed to have said something."""

ENDS = ("answered", "garbled")


def act(stage):
    for _ in range(50):
        stage.channel.send(b'{"said": 1, "kind": "loaded"}')


def twin(stage):
    return 1
