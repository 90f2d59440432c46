"""Makes files until there are no more; the number is bounded, and they are gone afterwards."""

import os

ENDS = ("answered", "disk", "timeout")
SECONDS = 2.0


def act(stage):
    for number in range(100_000):
        try:
            os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            return error.strerror
    stage.boasts.append("made 100000 files")
    return ""


def twin(stage):
    for number in range(100):
        open(f"f{number}", "w").close()
