"""The command line from outside: exit codes, what goes to which stream, Ctrl-C. The judge is a fake, the models are
real `command:` and `replay:` proposers.
"""

from __future__ import annotations

import io
import json
import os
import pty
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelsmith import records, resources, session
from kernelsmith.__main__ import main
from kernelsmith.base import Frozen
from kernelsmith.commands.runs import Status
from kernelsmith.quote import RunQuote
from kernelsmith.store import Store
from kernelsmith.summary import FOREIGN
from tests.cli_with_fakes import fake_executor
from tests.fakes import UNCONFINED, code

ROOT = Path(__file__).parents[1]


class Cli:
    """Runs commands in a folder with an operator file: most in this process, those that get signals in their own."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.patch, self.capture = folder, patch, capture
        (folder / "op.py").write_text("def op(x): ...\n")
        os.mkfifo(folder / "pipe")
        (folder / "loop").symlink_to("loop")
        patch.chdir(folder)
        patch.setattr(session, "executor_for", fake_executor)

    def replies(self, *texts: str) -> str:
        replies = self.folder / "replies"
        replies.mkdir(exist_ok=True)
        for number, text in enumerate(texts, 1):
            (replies / f"{number:03d}.md").write_text(text)
        return f"replay:{replies}"

    def start(self, *arguments: str, **streams: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.cli_with_fakes", *arguments]
        env = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        return subprocess.Popen(command, cwd=self.folder, env=env, text=True, **streams)  # type: ignore[call-overload,no-any-return]

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        self.patch.setattr(sys, "argv", ["kernelsmith", *arguments])
        self.patch.setattr(sys, "stdin", io.StringIO(stdin))
        self.capture.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = self.capture.readouterr()
        return subprocess.CompletedProcess(arguments, int(end.value.code or 0), out, err)

    def kernel(self, verdict: str, name: str = "kernel.py") -> str:
        (self.folder / name).write_text(f"def op(x): ...  # {verdict}\n")
        return name


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 0.01)
    return Cli(tmp_path, monkeypatch, capsys)


def parse(line: str) -> Frozen:
    """One line of `--json` output, validated against the schema of its record."""
    data = json.loads(line)
    by_name = {r.model_fields["record"].default: r for r in records.all_records() if "record" in r.model_fields}
    return by_name[data["record"]].model_validate_json(line)


# ---------------------------------------------------------------- tune


def test_tune_finds_a_faster_kernel(cli: Cli) -> None:
    model = cli.replies(code("faster 1.5"), "nothing", code("wrong_values"))
    done = cli("tune", "op.py", "--model", model, "--max-trials", "3", "--width", "1")
    assert done.returncode == 0, done.stderr
    assert "best kernel: runs/op-" in done.stdout and "1.80x eager" in done.stdout
    assert (
        "trials" in done.stdout and "stopped (trials)" in done.stdout and "next: kernelsmith export op-" in done.stdout
    )
    assert "trial 3 (replay:" in done.stderr and "wrong at" not in done.stdout


def test_tune_json_lines_are_records_and_the_last_names_the_winner(cli: Cli) -> None:
    model = cli.replies(code("faster 1.5"), code("compile_error"))
    done = cli("tune", "op.py", "--model", model, "--max-trials", "2", "--json")
    parsed = [parse(line) for line in done.stdout.splitlines()]
    assert done.stderr == ""
    result = parsed[-1]
    assert isinstance(result, records.TuneResult) and result.winner is not None and result.exit_code == 0
    assert result.winner.speedup == pytest.approx({"eager": 1.8, "compile": 1.5})
    assert (cli.folder / result.winner.kernel).read_text().count("faster 1.5") == 1
    assert {type(r) for r in parsed} >= {
        records.TuneStarted,
        records.CallStarted,
        records.CallEnded,
        records.TrialJudged,
    }


def test_tune_without_a_faster_kernel_is_1(cli: Cli) -> None:
    assert cli("tune", "op.py", "--model", cli.replies(code("faster 0.7"))).returncode == 1
    assert cli("tune", "op.py", "--model", cli.replies(code("faster 1.3")), "--goal", "2").returncode == 1


@pytest.mark.parametrize(
    ("also", "code", "says"),
    [
        ("nvidia-h200,cambricon", 0, "nvidia-h200  tile    float16  yes   64         -       200,000/232,448 B"),
        (
            "nvidia-h200,nvidia-l40s",
            1,
            "nvidia-l40s: tile: needs 200,000 bytes of shared memory in a program, an nvidia",
        ),
    ],
)
def test_check_says_where_else_a_kernel_fits(cli: Cli, also: str, code: int, says: str) -> None:
    (cli.folder / "k.py").write_text("# faster 1.0")
    done = cli("check", "k.py", "--op", "op.py", "--also", also)
    assert done.returncode == code, done.stderr
    assert says in done.stdout
    record = records.KernelReport.model_validate_json(
        cli("check", "k.py", "--op", "op.py", "--also", also, "--json").stdout
    )
    assert [row.target for row in record.also] == also.split(",")
    assert record.outcome == "passed"


def test_tune_without_the_device_ends_with_estimates(cli: Cli) -> None:
    (cli.folder / "start.py").write_text("# faster 4.0")
    flags = ("--device", "nvidia-h100", "--without-device", "--max-trials", "1")
    done = cli("tune", "op.py", "--start", "start.py", *flags)
    assert done.returncode == 0, done.stderr
    assert "estimates for nvidia-h100, not measured there:" in done.stdout
    assert "about 2 us, 50% of the roofline; limited by memory" in done.stdout
    assert "assumed: a wind from the west" in done.stdout
    assert "best baseline" not in done.stdout, "nothing was measured"
    told = cli("report")
    assert "estimated at 50% of the roofline; not measured on nvidia-h100" in told.stdout


def test_check_without_the_device_prints_estimates(cli: Cli) -> None:
    (cli.folder / "k.py").write_text("# faster 4.0")
    flags = ("--device", "nvidia-h100", "--without-device", "--also", "nvidia-h100,nvidia-h200")
    done = cli("check", "k.py", "--op", "op.py", *flags)
    assert done.returncode == 0, done.stderr
    assert "estimates for nvidia-h100, not measured there:" in done.stdout
    record = records.KernelReport.model_validate_json(cli("check", "k.py", "--op", "op.py", *flags, "--json").stdout)
    assert [row.target for row in record.also] == ["nvidia-h100", "nvidia-h200"]


def test_a_wrong_kernel_is_not_compiled_for_others(cli: Cli) -> None:
    (cli.folder / "k.py").write_text("# wrong_values")
    done = cli("check", "k.py", "--op", "op.py", "--also", "nvidia-h200")
    assert done.returncode == 1
    assert "nvidia-h200: not compiled: the kernel did not pass its check" in done.stdout
    assert "compiled in" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune"], "no operator"),
        (["tune", "missing.py"], "missing.py: no such file"),
        (["tune", "op.py", "--device", "abacus"], "abacus"),
        (["tune", "op.py", "--model", "psychic:x"], "psychic"),
        (["tune", "op.py", "--model", "openai:gpt-5"], "OPENAI_API_KEY"),
        (["tune", "op.py", "--model", "openai:m@http://127.0.0.1:9/v1", "--max-usd", "1"], "price"),
        (["tune", "op.py", "--max-time", "soon"], "soon"),
        (["tune", "op.py", "--start", "none.py"], "none.py"),
        (["tune", "--resume", "nothing"], "no store"),
        (["tune", "op.py", "--resume", "x"], "--resume"),
        (["check", "none.py", "--op", "op.py"], "none.py"),
        (["check", ".", "--op", "op.py"], "kernel .: not a regular file"),
        (["check", "pipe", "--op", "op.py"], "kernel pipe: not a regular file"),
        (["check", "loop", "--op", "op.py"], "kernel loop: Too many levels of symbolic links"),
        (["check", "op.py", "--op", "pipe"], "operator file pipe: not a regular file"),
        (["check", "op.py", "--op", "loop"], "operator file loop: no such file"),
        (["check", "op.py", "--op", "op.py", "--set", "nonsense"], "nonsense"),
        (["check", "op.py", "--op", "op.py", "--max-bytes", "lots"], "lots"),
        (["check", "op.py", "--op", "op.py", "--sweep", "N"], "no range of sizes"),
        (["check", "op.py", "--op", "op.py", "--sweep", "N=5..1"], "ends before it begins"),
        (["check", "op.py", "--op", "op.py", "--sweep", "N=1..5:0"], "a step of 0"),
        (["check", "op.py", "--op", "op.py", "--also", "nvidia-h201"], "unknown target 'nvidia-h201'"),
        (["check", "op.py", "--op", "op.py", "--also", ","], "names no target"),
        (["targets", "install", "nvidia-h100"], "as kernelsmith has it, will do"),
        (["targets", "install", "cambricon"], "there is none"),
        (["tune", "op.py", "--sweep", "NONE=1..5"], "has no dim NONE"),
        (["tune", "--resume", "x", "--sweep", "N=1..5"], "--sweep"),
        (["batch", "none.toml"], "none.toml"),
        (["report", "--runs", "empty"], "no store"),
    ],
)
def test_bad_input_is_2_with_a_message_and_a_hint(cli: Cli, arguments: list[str], message: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and message in done.stderr and "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_server_that_is_down_is_2_and_resumable(cli: Cli) -> None:
    done = cli("tune", "op.py", "--model", "command:exit 3", "--json")
    result = parse(done.stdout.splitlines()[-1])
    assert done.returncode == 2
    assert isinstance(result, records.TuneResult) and "exit code 3" in result.message and "--resume" in result.next


def test_tracebacks_only_on_request(cli: Cli) -> None:
    (cli.folder / "runs").write_text("")
    quiet = cli("tune", "op.py")
    assert quiet.returncode == 2 and "Traceback" not in quiet.stderr
    assert "Traceback" in cli("tune", "op.py", "--verbose").stderr
    cli.patch.setenv("KERNELSMITH_RAISE", "1")
    assert "Traceback" in cli("tune", "op.py").stderr


def test_print_prompt_asks_nobody(cli: Cli) -> None:
    done = cli("tune", "op.py", "--print-prompt", "--model", "command:touch asked; exit 1")
    assert done.returncode == 0, done.stderr
    assert "def op(x)" in done.stdout
    assert not (cli.folder / "asked").exists() and not (cli.folder / "runs").exists()


def test_estimate_tells_what_a_run_would_cost_and_asks_nobody(cli: Cli) -> None:
    cli.patch.delenv("OPENAI_API_KEY", raising=False)
    models = ("--model", "openai:gpt-4o", "--model", "command:touch asked; exit 1", "--max-trials", "7")
    done = cli("tune", "op.py", "--estimate", *models)
    assert done.returncode == 0, done.stderr
    assert "openai:gpt-4o" in done.stdout and "7 (trials)" in done.stdout and "nothing spent" in done.stdout
    told = parse(cli("tune", "op.py", "--estimate", *models, "--json").stdout)
    assert isinstance(told, RunQuote) and told.models[0].usual.usd > 0 and told.models[0].calls == 7
    refused = cli("tune", "op.py", "--estimate", "--model", "openai:gpt-4o", "--max-usd", "0.001")
    assert "none: the first needs" in refused.stdout
    cli.patch.setenv("OPENAI_API_KEY", "k")
    assert not (cli.folder / "asked").exists() and not (cli.folder / "runs").exists()
    begun = cli("tune", "op.py", "--model", "openai:gpt-4o", "--max-usd", "0.001")
    assert begun.returncode == 1 and "not even a first call fits" in begun.stdout
    assert "--estimate cannot be given with --resume" in cli("tune", "--resume", "x", "--estimate").stderr


def test_start_and_hint(cli: Cli) -> None:
    (cli.folder / "hint.txt").write_text("use big blocks")
    model = "command:cat > prompt.txt; echo no code"
    done = cli(
        *("tune", "op.py", "--start", cli.kernel("faster 1.2"), "--hint", "hint.txt"),
        *("--max-trials", "2", "--model", model),
    )
    assert done.returncode == 0, done.stderr
    prompt = (cli.folder / "prompt.txt").read_text()
    assert "use big blocks" in prompt and "# faster 1.2" in prompt


SLOW = "command:echo asked >> asked; sleep 0.3; cat reply.md; [ $(wc -l < asked) -lt 2 ] || sleep 60"


def test_ctrl_c_saves_and_resume_goes_on(cli: Cli) -> None:
    (cli.folder / "reply.md").write_text(code("faster 1.5"))
    process = cli.start("tune", "op.py", "--model", SLOW, "--width", "1", "--json", stdout=subprocess.PIPE)
    _wait(lambda: (cli.folder / "asked").exists() and (cli.folder / "asked").read_text().count("asked") == 2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)  # two of the same signal at once are one
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, 130), "the second Ctrl-C kills"
    run = json.loads(out.splitlines()[0])["run"]
    (cli.folder / "asked").unlink()
    again = cli("tune", "--resume", run[:-2], "--max-trials", "2", "--json")
    result = parse(again.stdout.splitlines()[-1])
    assert isinstance(result, records.TuneResult) and result.run == run
    assert again.returncode == 0 and result.spent.trials == 2, "one judged, one lost"
    assert not (cli.folder / "asked").exists()


def test_one_ctrl_c_is_130_and_prints_the_resume_command(cli: Cli) -> None:
    (cli.folder / "reply.md").write_text(code("faster 1.5"))
    slow = "command:echo asked >> asked; sleep 1; cat reply.md"
    process = cli.start(
        "tune", "op.py", "--model", slow, "--width", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _wait(lambda: (cli.folder / "asked").exists())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "next: kernelsmith tune --resume op-" in out
    assert "waiting up to" in err
    status = json.loads(cli("runs", "list", "--json").stdout)["runs"][0]
    assert status["status"] == "interrupted" and status["trials"] == 1, "the reply that was paid for is kept"


def test_a_run_from_elsewhere_is_judged_confined_and_asks_nobody_unnamed(cli: Cli) -> None:
    model = cli.replies(code("faster 1.5"), code("faster 2.0"))
    first = parse(cli("tune", "op.py", "--model", model, "--max-trials", "1", "--json").stdout.splitlines()[-1])
    assert isinstance(first, records.TuneResult) and first.winner
    assert FOREIGN not in cli("report").stdout
    cli.patch.setenv("XDG_STATE_HOME", str(cli.folder / "another user's"))
    (cli.folder / "op.py").unlink()
    refused = cli("tune", "--resume", first.run, "--max-trials", "2")
    assert refused.returncode == 2 and "not made here by you" in refused.stderr and "--model" in refused.stderr
    for given in ("--model", model), ():  # what was named once need not be named again
        done = cli("tune", "--resume", first.run, "--max-trials", "2", *given)
        assert done.returncode == 0 and FOREIGN in done.stderr
    assert FOREIGN in cli("report").stdout and FOREIGN in cli("report", "--format", "md").stdout
    assert (cli.folder / "runs" / first.run / "operator.py").read_text() == "def op(x): ...\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE runs SET spec = '[]' WHERE id = ?", "Input should be an object"),
        ("UPDATE runs SET stop = 'bored' WHERE id = ?", "stop: Input should be "),
        ("UPDATE trials SET parents = '{' WHERE run = ?", "trial 1 of run"),
    ],
)
def test_a_row_that_cannot_be_read_hides_no_other_run(cli: Cli, change: str, words: str) -> None:
    for _ in range(2):
        cli("tune", "op.py", "--model", cli.replies(code("faster 1.1")), "--max-trials", "1")
    with Store.open(Path("runs")) as store:
        good, bad = (run.id for run in store.runs())
    with sqlite3.connect("runs/kernelsmith.db") as connection:
        connection.execute(change, [bad])
    connection.close()
    for command in (["report"], ["runs", "list"]):
        done = cli(*command)
        assert done.returncode == 2 and good in done.stdout and bad not in done.stdout
        assert f"left out: {'run' if 'runs' in change else 'trial 1 of run'} {bad}" in done.stderr
        assert words in done.stderr and "pydantic" not in done.stderr


def test_resume_keeps_what_the_run_began_with(cli: Cli) -> None:
    cli("tune", "op.py", "--model", cli.replies(code("faster 1.1")), "--width", "3", "--max-trials", "1", "--seed", "5")
    with Store.open(Path("runs")) as store:
        (before,) = store.runs()
    more = cli.replies(code("faster 1.1"), code("faster 1.5"))
    done = cli("tune", "--resume", before.id, "--max-trials", "2", "--model", more)
    assert done.returncode == 0 and "resuming op" in done.stderr
    with Store.open(Path("runs")) as store:
        (after,) = store.runs()
    assert after.spec.budget.max_trials == 2 and after.winner == 2
    assert after.spec == before.spec.model_copy(update={"budget": after.spec.budget})
    (cli.folder / "op.py").write_text("def op(x): return 2 * x\n")
    changed = cli("tune", "--resume", before.id)
    assert changed.returncode == 2 and "has changed since run" in changed.stderr
    assert "cannot be given with --resume" in cli("tune", "--resume", before.id, "--seed", "6").stderr


def _wait(condition: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_live_view_on_a_terminal(cli: Cli) -> None:
    model = cli.replies(code("faster 1.5"), code("wrong_values"), *[code("faster 1.1", f"_ = {n}\n") for n in range(9)])
    ours, theirs = pty.openpty()
    process = cli.start("tune", "op.py", "--model", model, "--width", "1", stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, seen
    assert "best kernel: runs/op-" in out
    text = seen.decode()
    assert "best baseline (trial 1)" in text and "outcomes" in text and "spent" in text
    assert "\x1b[31m" not in text and "\x1b[1m\x1b[3" not in text, "NO_COLOR is honoured"


# ---------------------------------------------------------------- check and bench


def test_check_says_yes_or_no(cli: Cli) -> None:
    assert cli("check", cli.kernel("faster 2.0"), "--op", "op.py").returncode == 0
    done = cli("check", cli.kernel("wrong_values"), "--op", "op.py", "--seed", "4")
    assert done.returncode == 1
    assert "kernel.py: wrong_values" in done.stdout
    assert (
        f"reproduce: kernelsmith check kernel.py --op {cli.folder}/op.py --device cpu --level quick --seed 4"
        in done.stdout
    )


def test_what_was_asked_for_is_asked_for_again_to_reproduce_a_verdict(cli: Cli) -> None:
    asked = "--repeats 90 --at-once 4 --sweep N=1..64 --sweep M=1..9:2"
    done = cli("check", cli.kernel("wrong_values"), "--op", "op.py", *asked.split())
    assert done.returncode == 1 and asked in done.stdout


def test_a_verdict_on_a_target_of_ones_own_is_reproduced_with_its_folder(cli: Cli) -> None:
    mine = cli.folder / "my targets"
    mine.mkdir()
    (mine / "mine.toml").write_text(resources.read("targets", "cpu.toml").replace('name = "cpu"', 'name = "mine"'))
    device = ("--device", "mine", "--targets", str(mine))
    wrong = cli.kernel("wrong_values")
    checked = json.loads(cli("check", wrong, "--op", "op.py", *device, "--json").stdout)
    cli("tune", "op.py", "--start", wrong, "--model", cli.replies("none"), "--max-trials", "1", *device)
    with Store.open(cli.folder / "runs", create=False) as store:
        (trial,) = store.trials(store.runs()[0])
    assert trial.evaluation is not None
    for again in (checked["reproduce"], trial.evaluation.reproduce):
        words = shlex.split(again)
        assert words[words.index("--targets") + 1] == str(mine)
        assert cli(*words[1:]).returncode == 1, "it is a command that runs"


def test_a_byte_order_mark_is_no_part_of_a_kernel(cli: Cli) -> None:
    cli.kernel("faster 1.1", "plain.py")
    (cli.folder / "marked.py").write_bytes(b"\xef\xbb\xbf" + (cli.folder / "plain.py").read_bytes())
    assert session.read_text(cli.folder / "marked.py", "kernel") == (cli.folder / "plain.py").read_text()


def test_check_json_has_the_documented_keys(cli: Cli) -> None:
    done = cli("check", "-", "--op", "op.py", "--json", stdin="def op(x): ...  # wrong_values\n")
    report = json.loads(done.stdout)
    documented = {"outcome", "stage", "message", "where", "mismatch", "cases", "verified", "timings", "reproduce"}
    assert documented <= set(report) and report["outcome"] == "wrong_values"
    records.KernelReport.model_validate_json(done.stdout)
    assert done.returncode == 1 and done.stderr == ""


def test_bench_is_a_gate(cli: Cli) -> None:
    fast, slow = cli.kernel("faster 1.5", "fast.py"), cli.kernel("faster 0.9", "slow.py")
    assert cli("bench", fast, "--op", "op.py").returncode == 0
    assert cli("bench", fast, "--op", "op.py", "--fail-under", "1.4").returncode == 0
    assert cli("bench", fast, "--op", "op.py", "--fail-under", "1.5").returncode == 1, "1.5 is not proven"
    for unclear in ("nan", "inf", "0", "-1"):
        refused = cli("bench", fast, "--op", "op.py", "--fail-under", unclear)
        assert refused.returncode == 2 and "--fail-under" in refused.stderr
    both = cli("bench", fast, slow, "--op", "op.py", "--fail-under", "1", "--json")
    assert both.returncode == 1
    reports = records.KernelReports.model_validate_json(both.stdout).kernels
    assert [(r.kernel, r.timings[0].verdict) for r in reports] == [("fast.py", "faster"), ("slow.py", "slower")]


UNSAFE = "NOT CONFINED, as --unsafe-no-sandbox allowed: resource limits held; missing: Landlock, seccomp"


def test_every_report_of_an_unsafe_run_says_so(cli: Cli) -> None:
    kernel, model = cli.kernel("faster 1.5"), cli.replies(code("faster 1.5"))
    for command in ("check", "bench"):
        assert UNSAFE in cli(command, kernel, "--op", "op.py", "--unsafe-no-sandbox").stdout
        assert UNSAFE not in cli(command, kernel, "--op", "op.py").stdout
    tuned = cli("tune", "op.py", "--model", model, "--max-trials", "1", "--unsafe-no-sandbox")
    assert UNSAFE in tuned.stdout and "--unsafe-no-sandbox" in tuned.stderr
    (run,) = records.Reports.model_validate_json(cli("runs", "list", "--json").stdout).runs
    assert run.unsafe_no_sandbox and run.confinement == UNCONFINED
    assert "finished (no sandbox)" in cli("runs", "list").stdout
    for form in ("table", "md", "csv"):
        assert "NOT CONFINED" in cli("report", "--format", form).stdout
    record = json.loads((cli.folder / run.folder / "run.json").read_text())
    assert record["confinement"]["unsafe_no_sandbox"] and record["spec"]["unsafe_no_sandbox"]


def test_a_run_once_unsafe_stays_so(cli: Cli) -> None:
    model = cli.replies(code("faster 1.5"), code("faster 1.6"))
    safe = cli("tune", "op.py", "--model", model, "--max-trials", "1", "--width", "1")
    held = "confinement: Landlock (ABI 7), seccomp held; missing: own /proc"
    assert held in safe.stdout
    run = records.Reports.model_validate_json(cli("runs", "list", "--json").stdout).runs[0].run
    assert UNSAFE not in cli("report", run).stdout and held in cli("report", run).stdout
    cli("tune", "--resume", run, "--max-trials", "2", "--unsafe-no-sandbox")
    resumed = cli("tune", "--resume", run, "--max-trials", "2")
    assert "NOT CONFINED" in resumed.stdout
    assert "NOT CONFINED" in cli("report", run).stdout


# ---------------------------------------------------------------- runs, report, batch, targets


def test_runs_and_report(cli: Cli) -> None:
    cli("tune", "op.py", "--model", cli.replies(code("faster 1.5"), code("wrong_values")), "--width", "1")
    listed = records.Reports.model_validate_json(cli("runs", "list", "--json").stdout)
    (run,) = (r.run for r in listed.runs)
    assert listed.runs[0].outcomes == {"passed": 1, "wrong_values": 1} and listed.runs[0].rechecked
    assert cli("runs", "path", run[:6]).stdout.strip() == f"runs/{run}"
    assert run in cli("runs", "list", "--status", "finished").stdout
    assert run not in cli("runs", "list", "--status", "killed").stdout
    assert "1 passed, 1 wrong_values" in cli("runs", "show", run).stdout
    assert "| N=1024 |" in cli("report", "--format", "md").stdout
    header, row = cli("report", run, "--format", "csv").stdout.splitlines()
    assert header.startswith("run,created,operator") and row.startswith(run)
    assert json.loads(cli("report", "--format", "json").stdout)["runs"][0]["run"] == run
    refused = cli("runs", "rm", run)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    assert cli("runs", "rm", run, "--yes").returncode == 0
    assert cli("runs", "list").stdout == "no runs\n"


def test_batch_goes_on_after_failures(cli: Cli) -> None:
    cli.replies(code("faster 1.5"))
    (cli.folder / "suite.toml").write_text(
        """
        [defaults]
        max-trials = 1
        model = "replay:replies"
        [[item]]
        op = "missing.py"
        [[item]]
        op = "op.py"
        [[item]]
        name = "ambitious"
        op = "op.py"
        min-speedup = 9
        """
    )
    done = cli("batch", "suite.toml", "--json")
    assert done.returncode == 1
    *items, summary = [parse(line) for line in done.stdout.splitlines()]
    assert [(item.name, item.ok) for item in items] == [("missing", False), ("op", True), ("ambitious", False)]
    assert isinstance(summary, records.BatchResult) and (summary.ok, summary.items) == (1, 3)
    table = cli("batch", "suite.toml", "-j", "2").stdout
    assert "ambitious" in table and "9.00x is wanted" in table and "1 of 3 items are ok" in table


def test_targets(cli: Cli) -> None:
    assert "cpu" in cli("targets", "list").stdout
    rows = records.Targets.model_validate_json(cli("targets", "list", "--json").stdout)
    assert "cpu" in [row.name for row in rows.targets]
    assert json.loads(cli("targets", "show", "cpu", "--json").stdout)["torch_device"] == "cpu"
    assert cli("targets", "check").returncode == 0
    (cli.folder / "mine").mkdir()
    (cli.folder / "mine" / "toaster.toml").write_text("slots = 2")
    done = cli("targets", "check", "toaster", "--targets", "mine")
    assert done.returncode == 1 and "toaster.toml" in done.stdout


def test_export_needs_a_winner(cli: Cli) -> None:
    cli("tune", "op.py", "--model", cli.replies(code("wrong_values")))
    run = json.loads(cli("runs", "list", "--json").stdout)["runs"][0]["run"]
    done = cli("export", run, "--out", "package")
    assert done.returncode == 2 and "no winner" in done.stderr


def test_every_record_has_a_schema() -> None:
    schemas = records.schemas()
    assert len(schemas) > 15
    for name, schema in schemas.items():
        assert schema["additionalProperties"] is False, name
        assert schema["type"] == "object", name


def test_the_published_schema_is_up_to_date() -> None:
    published = json.loads((ROOT / "docs" / "schema.json").read_text(encoding="utf-8"))
    assert published == records.schemas(), "run `make schema`"


def test_every_state_of_a_run_can_be_listed() -> None:
    assert [state.value for state in records.RunState] == [status.value for status in Status]


def test_lessons_are_listed_written_edited_and_deleted(cli: Cli) -> None:
    empty = cli("lessons", "list")
    assert empty.returncode == 2 and "no store here" in empty.stderr
    written = cli("lessons", "add", "blocks of 4096 are best here", "--category", "rows", "--json")
    assert written.returncode == 0
    lesson = json.loads(written.stdout)
    assert (lesson["kind"], lesson["family"], lesson["category"], lesson["offered"]) == ("note", "cpu", "rows", True)
    name = lesson["id"][:6]
    assert cli("lessons", "edit", name, "blocks of 8192").returncode == 0
    assert "cpu/rows  note  blocks of 8192  [yours]" in cli("lessons", "list").stdout
    assert "blocks of 8192" in cli("lessons", "show", name).stdout
    assert cli("lessons", "rm", name).stdout.startswith("removed: ")
    assert "no lessons yet" in cli("lessons", "list").stdout
    gone = cli("lessons", "show", name)
    assert gone.returncode == 2 and "lessons list" in gone.stderr
