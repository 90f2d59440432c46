"""`kernelsmith` and `python -m kernelsmith`: every way out of the program has one of four exit codes.

0 yes; 1 the answer is no; 2 could not answer; 130 interrupted. An unexpected exception is 2: a crash is no answer.
"""

from __future__ import annotations

import os
import resource
import sys

from kernelsmith.errors import KernelsmithError, StoppedError


def main() -> None:
    """Run the command line and exit."""
    open_missing_streams()
    from kernelsmith.cli import app

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # a core holds the keys
    try:
        app()
    except KernelsmithError as error:
        _tell(error.message, error.hint)
        _trace(error)
        sys.exit(130 if isinstance(error, StoppedError) else 2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader has gone (`| head`); a second write on exit would complain again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:  # noqa: BLE001 - the edge of the program
        _tell(f"unexpected {type(error).__name__}: {error}", "run again with --verbose and report what it prints")
        _trace(error)
        sys.exit(2)


def open_missing_streams() -> None:
    """Where a caller closed standard streams (`<&-`), the next files opened would take their place, and be lost when a
    child process gets streams of its own."""
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is the stream's own
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _tell(message: str, hint: str) -> None:
    from kernelsmith.keys import redact
    from kernelsmith.text import clean

    message, hint = redact(message), redact(hint)
    sys.stderr.write(f"error: {clean(message)}\n" + (f"hint: {clean(hint)}\n" if hint else ""))


def _trace(error: Exception) -> None:
    from kernelsmith.config import tracebacks_wanted

    if tracebacks_wanted(sys.argv):
        import traceback

        from kernelsmith.keys import redact
        from kernelsmith.text import clean

        sys.stderr.write(clean(redact("".join(traceback.format_exception(error)))))


if __name__ == "__main__":
    main()
