"""Every error kernelsmith raises on purpose.

    KernelsmithError            something a person can mend: message + hint, exit code 2
    ├── UsageError              a flag, file or value is wrong
    │   └── OperatorError       an operator file is wrong (with file and line)
    ├── ProviderError           a language model could not be reached, paid or understood
    ├── StoreError              the store is corrupt, newer than this program, read-only or full
    ├── SandboxError            this machine cannot confine untrusted code
    ├── StoppedError            a person interrupted it before there was anything to report (exit code 130)
    └── InfrastructureError     a worker, device or disk failed: retried, never charged to a candidate

A candidate's failure is not an error: it is an `Outcome` (model.py). The command line turns a KernelsmithError into
"error: … / hint: …" on stderr and exit code 2; a traceback is shown only with --verbose.
"""

from __future__ import annotations


class KernelsmithError(Exception):
    """What was tried and with which value (`message`), and what to do about it (`hint`, may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # shown under a traceback, for those who call this as a library


class UsageError(KernelsmithError):
    """A flag, a file or a value given by the user is wrong."""


class OperatorError(UsageError):
    """An operator file cannot be used; `file` and `line` say where."""

    def __init__(self, message: str, hint: str = "", *, file: str = "", line: int | None = None) -> None:
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + message, hint)
        self.file = file
        self.line = line


USER_ERRORS = (Exception, SystemExit, KeyboardInterrupt)
"""What the user's own code may raise: it runs on threads of the judge, where no signal raises a KeyboardInterrupt, and
must not end them."""


class ProviderError(KernelsmithError):
    """A proposer failed in a way that trying again at once will not mend.

    `billed`: the server may have done (and charged for) the work, as after a timeout; the budget then counts the call
    at its reservation. `passing`: it may be over after a while, as an outage or a rate limit is; a refused key, an
    unknown model or an empty account is not. `wait`: seconds for which the provider asks to be left alone.
    """

    def __init__(
        self, message: str, hint: str = "", *, billed: bool = False, passing: bool = False, wait: float = 0.0
    ) -> None:
        super().__init__(message, hint)
        self.billed = billed
        self.passing = passing
        self.wait = wait


class StoreError(KernelsmithError):
    """The store cannot be read or written."""


class SandboxError(KernelsmithError):
    """Untrusted code cannot be confined here."""


class StoppedError(KernelsmithError):
    """A person interrupted this before there was anything to report."""


class InfrastructureError(KernelsmithError):
    """A worker, the device or the disk failed; the job may be tried again and no candidate is to blame."""
