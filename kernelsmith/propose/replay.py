"""`replay:PATH`: recorded replies again, as if a model had just sent them.

PATH is a run's folder (`trials/NNN/reply.md`) or a folder of `*.md` and `*.txt` files, numbered by the digits that
their names begin with, else by their order. Trial n gets the reply with number n, or the next one there is, so that a
resumed run and one with several workers get what an uninterrupted one would. What a reply cost is read from
`usage.json` beside it (`NAME.usage.json` for a file `NAME.md`), a `Usage` record; without one it cost nothing.
"""

from __future__ import annotations

import bisect
import re
import threading
from pathlib import Path

from pydantic import ValidationError

from kernelsmith.errors import ProviderError, UsageError
from kernelsmith.files import read_bytes
from kernelsmith.proposal import Reply, Usage
from kernelsmith.propose import Request
from kernelsmith.propose.stream import MAX_TEXT_BYTES


class ReplayProposer:
    """Gives every recorded reply at most once."""

    priced = True

    def __init__(self, path: Path) -> None:
        self.spec = f"replay:{path}"
        self._replies = _recorded(path)
        self._numbers = sorted(self._replies)
        self._lock = threading.Lock()

    def reserve(self, request: Request) -> Usage:
        return Usage()

    def propose(self, request: Request) -> Reply | None:
        with self._lock:
            index = bisect.bisect_left(self._numbers, request.brief.trial)
            if index == len(self._numbers):
                return None
            file = self._replies[self._numbers.pop(index)]
        try:
            text = read_bytes(file, MAX_TEXT_BYTES).decode(errors="replace")
        except UsageError as error:
            raise ProviderError(f"cannot read {error.message}", "restore the recorded reply") from error
        return Reply(text=text, usage=_usage(file), model=self.spec)


def _recorded(path: Path) -> dict[int, Path]:
    """Reply files by number."""
    if not path.is_dir():
        raise UsageError(
            f"no folder {str(path)!r} to replay", "name a run's folder or a folder of *.md or *.txt replies"
        )
    found = {
        int(file.parent.name): file
        for file in path.glob("trials/*/reply.md")
        if re.fullmatch(r"[0-9]{1,9}", file.parent.name)
    }
    if not found:
        files = sorted(file for file in path.iterdir() if file.suffix in (".md", ".txt") and file.is_file())
        leading = [re.match(r"[0-9]{1,9}", file.name) for file in files]
        numbers = [int(match[0]) for match in leading if match]
        if len(set(numbers)) < len(files):
            numbers = list(range(1, len(files) + 1))
        found = dict(zip(numbers, files, strict=True))
    if not found:
        raise UsageError(f"{str(path)!r} holds no reply", "expected trials/NNN/reply.md, or *.md or *.txt files")
    return found


def _usage(file: Path) -> Usage:
    sidecar = file.with_name("usage.json" if file.name == "reply.md" else f"{file.stem}.usage.json")
    if not sidecar.is_file():
        return Usage()
    try:
        return Usage.model_validate_json(read_bytes(sidecar, MAX_TEXT_BYTES))
    except (UsageError, ValidationError) as error:
        fields = ", ".join(Usage.model_fields)
        raise ProviderError(f"{sidecar} is not a usage record", f"a JSON object with {fields}; or delete it") from error
