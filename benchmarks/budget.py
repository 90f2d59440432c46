"""Does `--max-usd` hold, whatever happens? The bill of a server at real prices, against the limit and the run's books.

    python -m benchmarks.budget [--usd 0.05] [--runs 6] [--width 4] [--model gpt-4.1-mini]

The server answers on the loopback as a paid model would, at that model's listed price: it writes as much as it likes up
to the limit of output that each request sets, reads part of the prompt from a cache, is out of breath, breaks off, or
forgets to say what it counted, and bills whatever it began to answer. Several calls are in flight, and every other run
is killed twice and resumed. The judge is a stand-in, since only money is looked at here. Prints a line per run; exit
code 1 if any bill is above the limit, or above what the run says it spent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from kernelsmith.proposal import Usage
from kernelsmith.propose.pricing import Price, listed_price
from tests.fakes import code
from tests.servers import Fault, ModelServer, Received, Script

ROOT = Path(__file__).parents[1]
BYTES_PER_TOKEN = 3.5
OUTPUT = (7.5, 1.3)
"""Of the logarithm of the tokens that the model would like to write: mean and deviation; 1,800 and up to 30,000."""
PATIENCE = 300.0


@dataclass
class Till:
    """The model behind the server, which bills what it answers."""

    price: Price
    rng: random.Random
    usd: Decimal = Decimal(0)
    met: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, received: Received) -> Script:
        with self.lock:
            kind = self.rng.choices(("whole", "status 503", "broken off", "uncounted"), (70, 10, 10, 10))[0]
            delay = self.rng.uniform(0.02, 0.3)
            if kind == "status 503":
                self.met[kind] += 1
                return Script(status=503, headers={"retry-after": "0.02"}, delay=delay)
            prompt = int(len(received.prompt.encode()) / BYTES_PER_TOKEN)
            cached = int(prompt * self.rng.uniform(0, 0.8))
            wanted, most = int(self.rng.lognormvariate(*OUTPUT)), int(received.body["max_tokens"])
            bill = Usage(input_tokens=prompt, cached_input_tokens=cached, output_tokens=min(wanted, most))
            self.usd += self.price(bill)
            self.met["cut at its limit" if wanted > most and kind == "whole" else kind] += 1
            return Script(
                code("faster 1.5", f"_ = {sum(self.met.values())}\n"),
                fault=Fault.DROP if kind == "broken off" else Fault.NONE,
                complete=wanted <= most,
                usage=kind != "uncounted",
                input_tokens=prompt,
                cached=cached,
                output_tokens=bill.output_tokens,
                delay=delay,
            )


@dataclass(frozen=True)
class Books:
    """What one run came to."""

    billed: Decimal
    spent: Decimal
    calls: int
    kills: int
    stop: str
    met: Counter[str]


def measure(folder: Path, *, model: str, usd: str, width: int, kills: int, seed: int) -> Books:
    """One run from beginning to end in an empty folder; killed so many times and resumed."""
    price = listed_price(model, provider="openai")
    if price is None:
        raise SystemExit(f"{model}: no listed price")
    till, rng = Till(price, random.Random(seed)), random.Random(seed)
    (folder / "op.py").write_text("def op(x): ...\n")
    begin = ["tune", "op.py", "--model", f"openai:{model}", "--max-usd", usd, "--width", str(width)]
    with ModelServer(till) as server:
        own = {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"}
        environment = os.environ | own
        done, arguments = 0, begin
        while True:
            seconds = rng.uniform(1.5, 4.0) if done < kills else PATIENCE
            record = _session(folder, arguments, environment, seconds)
            if record is not None:
                break
            done += 1
            runs = [path.name for path in (folder / "runs").glob("op-*")] if (folder / "runs").is_dir() else []
            arguments = ["tune", "--resume", runs[0]] if runs else begin
        calls = len(server.requests)
    spent = Decimal(str(record["spent"]["usage"]["usd"]))
    return Books(till.usd, spent, calls, done, record["stop"], till.met)


def _session(folder: Path, arguments: list[str], environment: dict[str, str], seconds: float) -> dict[str, Any] | None:
    """The last record of a session; None if it was killed after so many seconds."""
    command = [sys.executable, "-m", "tests.cli_with_fakes", *arguments, "--json"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    last: dict[str, Any] = json.loads(out.splitlines()[-1])
    return last


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--usd", default="0.05")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--model", default="gpt-4.1-mini")
    options = parser.parse_args()
    wrong = 0
    for seed in range(options.runs):
        given = {"model": options.model, "usd": options.usd, "width": options.width}
        with tempfile.TemporaryDirectory() as folder:
            books = measure(Path(folder), **given, kills=2 * (seed % 2), seed=seed)
        held = books.billed <= books.spent <= Decimal(options.usd)
        wrong += not held
        met = ", ".join(f"{count} {kind}" for kind, count in books.met.most_common())
        print(
            f"{'held' if held else 'NOT HELD'}: billed ${books.billed:.5f}, booked ${books.spent:.5f} of "
            f"${options.usd}; {books.calls} requests ({met}), killed {books.kills} times, stopped by {books.stop}",
            flush=True,
        )
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
