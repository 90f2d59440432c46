"""What a hostile program would like to reach, planted around the sandbox, and the look at it afterwards.

Secrets in files, environments and memory; listeners; a process of the candidate's own user; a confined sibling; files
that anybody may write. Invariant: a breach is something that is seen from here: a token that came out, a canary that
changed, a connection, a process that lives on or has other powers. perform.py runs programs in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelsmith.diagnosis import DrillBreach, DrillFault
from kernelsmith.drill.role import ROLE
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children.zygote import Child, ChildEnded, Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.wire.protocol import ProtocolError

TOKEN_PREFIX = "kernelsmith-canary-"
"""Of every planted secret: a program may look for it, and finds itself out by what follows."""
_ENVIRONMENT = "KERNELSMITH_DRILL_API_KEY"


class World:
    """Planted on entry and taken away on exit. Make it before the zygote: the environment holds a canary too."""

    def __init__(self) -> None:
        self.mark = f"drill{secrets.token_hex(6)}"
        """In the name of everything that a program makes outside."""
        self.tokens = {
            what: TOKEN_PREFIX + secrets.token_hex(16)
            for what in ("a file outside", "the environment", "another process", "the sibling", "the judge's memory")
        }
        self.folder = Path(tempfile.mkdtemp(prefix="kernelsmith-drill-"))
        self.private = self.folder / "private"
        """A folder of the judge's own."""
        self._open = contextlib.ExitStack()
        self._victim: subprocess.Popen[bytes] | None = None
        self._sibling: Child | None = None
        self._zygote: Zygote | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            os.environ[_ENVIRONMENT] = self.tokens["the environment"]
            stack.callback(os.environ.pop, _ENVIRONMENT, None)
            self.folder.chmod(0o777)  # file modes protect nothing here: the sandbox must
            (self.folder / "secret").write_text(self.tokens["a file outside"])
            (self.folder / "secret").chmod(0o644)
            (self.folder / "lock").touch()
            (self.folder / "lock").chmod(0o666)
            (self.folder / "sub").mkdir(mode=0o777)
            (self.folder / "sub").chmod(0o777)
            self.private.mkdir(mode=0o700)
            self._listen(stack.enter_context)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _listen(self, enter: Callable[[socket.socket], socket.socket]) -> None:
        self._tcp = enter(socket.create_server(("127.0.0.1", 0)))
        self._udp = enter(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._named = enter(socket.socket(socket.AF_UNIX))
        self._named.bind(str(self.folder / "socket"))
        (self.folder / "socket").chmod(0o777)
        self._abstract = enter(socket.socket(socket.AF_UNIX))
        self._abstract.bind(f"\0{self.mark}")
        self._packets = enter(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._packets.bind(f"\0{self.mark}-packets")
        for stream in (self._named, self._abstract):
            stream.listen()
        for server in (self._tcp, self._udp, self._named, self._abstract, self._packets):
            server.setblocking(False)

    @contextlib.contextmanager
    def around(self, zygote: Zygote) -> Iterator[None]:
        """Start the bystanders: a process of the candidates' user, and a confined child with a secret of its own."""
        self._zygote = zygote
        sleep = [shutil.which("sleep", path=os.defpath) or "sleep", "100000"]
        environment = {_ENVIRONMENT: self.tokens["another process"]}
        if zygote.layers.other_uid:
            user = zygote.layers.uid
            victim = subprocess.Popen(sleep, env=environment, cwd="/", user=user, group=user, extra_groups=[])
        else:
            victim = subprocess.Popen(sleep, env=environment, cwd="/")
        self._victim = victim
        try:
            self._start_sibling()
            yield
        finally:
            if self._sibling is not None:
                self._sibling.kill()
            victim.kill()
            victim.wait()

    def _start_sibling(self) -> None:
        assert self._zygote is not None
        self._sibling = self._zygote.spawn(ROLE, limits=Limits(seconds=3600.0))
        ask(self._sibling, _SIBLING, "begin", {"token": self.tokens["the sibling"]})

    def order(self) -> dict[str, object]:
        """What a program is told: where everything is, but no token."""
        assert self._victim is not None and self._sibling is not None and self._zygote is not None
        return {
            "mark": self.mark,
            "prefix": TOKEN_PREFIX,
            "folder": str(self.folder),
            "secret": str(self.folder / "secret"),
            "canary": str(self.folder / "canary"),
            "lock": str(self.folder / "lock"),
            "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "socket": str(self.folder / "socket"),
            "abstract": self.mark,
            "packets": f"{self.mark}-packets",
            "judge": os.getpid(),
            "victim": self._victim.pid,
            "sibling": self._sibling.pid,
            "zygote": self._zygote.pid,
            "own_pids": self._zygote.layers.pid_namespace,
        }

    @property
    def bystanders(self) -> dict[str, int]:
        assert self._victim is not None and self._sibling is not None and self._zygote is not None
        return {
            "the judge": os.getpid(),
            "the victim": self._victim.pid,
            "the sibling": self._sibling.pid,
            "the zygote": self._zygote.pid,
        }

    def sibling_answers(self) -> bool:
        """Whether the confined bystander, which holds its secret, still does as it is asked; if not, another comes."""
        assert self._sibling is not None
        try:
            said = ask(self._sibling, _SIBLING, "ping", {})
        except (ChildEnded, ProtocolError):
            self._sibling.kill()
            self._start_sibling()
            return False
        return isinstance(said, dict) and said.get("said") == "pong"

    def connections(self) -> Iterator[str]:
        """Listeners that something has reached."""
        for name, server in {"tcp": self._tcp, "unix": self._named, "abstract unix": self._abstract}.items():
            with contextlib.suppress(BlockingIOError):
                server.accept()[0].close()
                yield name
        for name, server in {"udp": self._udp, "unix datagram": self._packets}.items():
            with contextlib.suppress(BlockingIOError):
                server.recv(100)
                yield name

    def zygote_family(self) -> list[int]:
        assert self._zygote is not None
        return sorted(usage.descendants(self._zygote.pid))

    def leaks(self, *said: str) -> list[DrillBreach]:
        """Tokens that came out."""
        text = "\n".join(said)
        return [
            DrillBreach(fault=DrillFault.ESCAPE, what=f"read {what}") for what, t in self.tokens.items() if t in text
        ]


_SIBLING = """
def begin(stage):
    global token
    token = stage.token
    (stage.scratch / "secret").write_text(token)
def ping(stage):
    return "pong"
"""


def ask(child: Child, source: str, part: str, world: Mapping[str, object], *, seconds: float = 20.0) -> Any:
    """Have a role of the drill run one function of a program; its decoded answer."""
    order = {"source": source, "name": "program", "part": part, "world": dict(world)}
    return json.loads(child.request(json.dumps(order).encode(), seconds=seconds).payload)
