"""Answers with a pickle that runs code when it is loaded; nothing may unpickle it."""

import pickle


class Bomb:
    def __reduce__(self):
        return (open, (self.path, "w"))


def act(stage):
    bomb = Bomb()
    bomb.path = f"{stage.folder}/pickled"
    return pickle.dumps(bomb, protocol=0) + pickle.dumps(bomb)


def twin(stage):
    assert pickle.loads(pickle.dumps([1, 2])) == [1, 2]
