"""`command:CMD`: any program that reads a prompt on stdin and writes a reply on stdout, such as a coding agent's CLI.

CMD is run by the shell in the user's own environment and folder, unchanged: it is the user's program, trusted as such,
and may log in with what it finds there. Invariant: when a call returns, no process of its group is left and no more
than `MAX_TEXT_BYTES` were kept. Its cost is unknown, so it counts neither tokens nor dollars.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time

from kernelsmith.errors import ProviderError
from kernelsmith.keys import redact, said
from kernelsmith.proposal import Prompt, Reply, Usage
from kernelsmith.propose import Request
from kernelsmith.propose.stream import MAX_TEXT_BYTES, Limits

_STDERR_TAIL = 4096
_NOT_RUN = (126, 127)
"""POSIX: what a shell ends with when a command is not executable, or is not there."""


class CommandProposer:
    """One process per call."""

    priced = False

    def __init__(self, command: str) -> None:
        self.spec = f"command:{command}"
        self._command = command

    def reserve(self, request: Request) -> Usage:
        return Usage()

    def propose(self, request: Request) -> Reply:
        limits, started = Limits.of(request.seconds), time.monotonic()
        process = subprocess.Popen(
            self._command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err, whole = _talk(process, _prompt_bytes(request.prompt), limits)
            code = process.wait(timeout=max(limits.left, 0.01)) if whole else None
        except subprocess.TimeoutExpired as error:
            hint = "allow more time, or make the command faster"
            message = f"{self.spec!r} had not ended after {limits.seconds:g} s"
            raise ProviderError(message, hint, passing=True) from error
        finally:
            _end(process)
        if code:
            words = said(err[-_STDERR_TAIL:].decode(errors="replace"), 1000) or "nothing on stderr"
            message = f"{self.spec!r} ended with exit code {code}: {words}"
            raise ProviderError(message, "run it by hand with a prompt", passing=code not in _NOT_RUN)
        usage = Usage(seconds=time.monotonic() - started)
        return Reply(text=redact(out.decode(errors="replace")), usage=usage, model=self.spec, complete=whole)


def _prompt_bytes(prompt: Prompt) -> bytes:
    return f"{prompt.system}\n\n{prompt.user}\n".encode()


def _talk(process: subprocess.Popen[bytes], prompt: bytes, limits: Limits) -> tuple[bytes, bytes, bool]:
    """Feed the prompt and read both outputs until they close; (stdout, tail of stderr, False if stdout was cut)."""
    assert process.stdin and process.stdout and process.stderr
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as ready:
        for pipe, event in (
            (process.stdin, selectors.EVENT_WRITE),
            (process.stdout, selectors.EVENT_READ),
            (process.stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, event)
        while ready.get_map():
            if limits.left == 0:
                raise subprocess.TimeoutExpired(process.args, limits.seconds)
            for key, _ in ready.select(limits.left):
                if key.fileobj is process.stdin:
                    prompt = _feed(key.fd, prompt)
                    done = not prompt
                else:
                    data = os.read(key.fd, 1 << 16)
                    (out if key.fileobj is process.stdout else err).extend(data)
                    done = not data
                if done:
                    ready.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            if len(out) > MAX_TEXT_BYTES:
                return bytes(out[:MAX_TEXT_BYTES]), bytes(err), False
            del err[:-_STDERR_TAIL]
    return bytes(out), bytes(err), True


def _feed(fd: int, prompt: bytes) -> bytes:
    """Write what the pipe takes; the rest. A command that does not read its prompt is its own affair."""
    try:
        return prompt[os.write(fd, prompt) :]
    except BrokenPipeError:
        return b""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the process group and release the pipes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
