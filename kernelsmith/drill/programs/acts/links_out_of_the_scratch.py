"""Leaves links to folders outside for whoever cleans up; cleaning must not follow them."""

import os


def act(stage):
    os.symlink(stage.folder, "folder")
    os.symlink(stage.canary, "file")
    os.mkdir("d")
    os.symlink("../folder/sub", "d/sub")


def twin(stage):
    os.mkdir("d")
    os.symlink("d", "link")
    assert os.path.isdir("link")
