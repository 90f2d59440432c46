"""Files with newlines, escapes and broken UTF-8 in their names, as a printer or cleaner may choke on; both go on."""

import os

ENDS = ("answered", "disk")


def act(stage):
    for name in (b"a\nb", b"\xff\xfe", b"\x1b[2J", b"-rf", b"--", b"$(reboot)", b" ", b"*", b"n" * 255):
        open(os.fsencode(stage.scratch) + b"/" + name, "w").close()
        os.makedirs(os.fsencode(stage.scratch) + b"/d/" + name + b"/x")


def twin(stage):
    for name in ("umlaut-ä", "漢字", "with space"):
        open(name, "w").close()
