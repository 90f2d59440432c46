"""Hides what it does in encoded text and in names made of pieces, which rules about words miss; must not pass."""

HIDDEN = "eSA9IHggKiB4ICsgMS4w"


def cheat(x):
    tool = __import__("base" + str(8 * 8))
    space = {"x": x}
    honest(x)
    getattr(__import__("builtins"), "ex" + "ec")(tool.b64decode(HIDDEN).decode(), space)
    return space["y"]


def twin(x):
    words = {"eval": honest, "exec": "import os", "compile": "open(__import__)"}  # subprocess, os.system('pip install')
    return words["eval"](x)
