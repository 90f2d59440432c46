"""Keys are where the user put them and nowhere else: everything that is written is searched for them."""

from __future__ import annotations

import base64
import resource
from pathlib import Path
from urllib.parse import quote

import pytest

from kernelsmith import keys
from tests.e2e.running import Folder
from tests.fakes import code
from tests.servers import ModelServer, Received, Script
from tests.test_cli import Cli

CANARY = "sk-C4n4ry/Zx8+Qw7=Tt5"
PASSWORD = "Pr0xyC4n4ry%2BWord"
KEYS = {
    "OPENAI_API_KEY": CANARY,
    "ANTHROPIC_API_KEY": CANARY[::-1],
    "CORPORATE": CANARY.swapcase(),
    "HTTPS_PROXY": f"http://me:{PASSWORD}@127.0.0.1:9",
}
SECRETS = (CANARY, CANARY[::-1], CANARY.swapcase(), PASSWORD, PASSWORD.replace("%2B", "+"))
FAKES = "tests.cli_with_fakes"


def traces(data: bytes) -> list[str]:
    """Forms of the secrets that stand in `data`: whole, halves, encoded."""
    found = []
    for secret in SECRETS:
        half = len(secret) // 2
        forms = [secret, secret[:half], secret[half:], quote(secret, safe="")]
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + secret.encode()).decode()
            forms.append(encoded[4:-4])
        found += [form for form in forms if form.encode() in data]
    return found


def echoing(received: Received) -> Script | str:
    """A server that repeats what it was sent: in a refusal, in a reply's text, and in base64."""
    header = received.headers.get("authorization") or received.headers.get("x-api-key") or ""
    key = header.removeprefix("Bearer ")
    n = echoing.count = getattr(echoing, "count", 0) + 1  # type: ignore[attr-defined]
    if n == 1:
        return Script(f"you sent {header} and {base64.b64encode(b'user:' + key.encode()).decode()}", status=400)
    return f"the key {key} is {base64.b64encode(key.encode()).decode()}\n" + code("faster 1.5", f"# {key}\n")


def test_what_is_searched_for_is_found() -> None:
    assert traces(f"x{CANARY}y".encode()) and traces(CANARY[:12].encode()) and not traces(b"nothing of the kind")
    assert traces(base64.b64encode(f"user:{CANARY}".encode()))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    for name, value in {**KEYS, "NO_PROXY": "127.0.0.1", "TMPDIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 0.01)
    return Cli(tmp_path, monkeypatch, capsys)


def test_no_key_is_written_anywhere(cli: Cli) -> None:
    said: list[str] = []

    def run(*arguments: str) -> None:
        done = cli(*arguments)
        said.append(done.stdout + done.stderr)

    (cli.folder / "suite.toml").write_text('[[item]]\nop = "op.py"\nmax-trials = 1\n')
    for protocol, name in (("openai", "OPENAI_API_KEY"), ("anthropic", "CORPORATE")):
        echoing.count = 0  # type: ignore[attr-defined]
        with ModelServer(echoing) as server:
            make = server.openai_spec if protocol == "openai" else server.anthropic_spec
            model = make(options=f"key_env={name}&price_input=1&price_output=1")
            for _ in range(2):
                run("tune", "op.py", "--model", model, "--max-trials", "1", "--verbose")
            run("batch", "suite.toml", "--json")
            assert all(KEYS[name] in str(one.headers) for one in server.requests) and len(server.requests) == 2
        assert keys.REDACTED in "".join(said)
    agent = "command:echo $OPENAI_API_KEY >&2; echo $CORPORATE; exit 3"
    run("tune", "op.py", "--model", agent, "--max-trials", "1")
    run("tune", "op.py", "--model", f"command:x {CANARY}")
    (cli.folder / "kernelsmith.toml").write_text(f'openai-api-key = "{CANARY}"\n')
    run("tune", "op.py")
    (cli.folder / "kernelsmith.toml").unlink()
    for listed in ("runs", "list"), ("report",), ("report", "--format", "json"), ("report", "--format", "md"):
        run(*listed)
    for path in sorted((cli.folder / "runs").glob("*/run.json")):
        run("runs", "show", path.parent.name)
        run("export", path.parent.name, "--out", f"out-{path.parent.name}")
    run("doctor")
    assert not traces("".join(said).encode())
    written = [path for path in cli.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.name == "kernelsmith.db" for path in written)
    for path in written:
        assert not traces(path.read_bytes()), path
        assert not path.name.startswith("core"), "no core dump"


def test_a_controller_leaves_no_core(folder: Folder) -> None:
    model = f"command:cat /proc/$PPID/limits > {folder.path}/limits; echo no code"
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        folder.operator.write_text("def op(x): ...\n")
        folder.run("tune", "op.py", "--model", model, "--max-trials", "1", module=FAKES)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    (row,) = [one for one in (folder.path / "limits").read_text().splitlines() if one.startswith("Max core")]
    assert row.split()[4] == "0"
