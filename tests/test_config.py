from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from kernelsmith import config
from kernelsmith.errors import UsageError


def load(tmp_path: Path, flags: dict[str, object] | None = None, **environ: str) -> config.Settings:
    environ.setdefault("XDG_CONFIG_HOME", str(tmp_path / "user"))
    return config.load(flags or {}, cwd=tmp_path, environ=environ)


def write_user(tmp_path: Path, text: str) -> None:
    path = tmp_path / "user" / "kernelsmith" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_nearer_sources_win(tmp_path: Path) -> None:
    assert load(tmp_path).width == 2
    write_user(tmp_path, 'width = 3\ngoal = 1.5\nmodel = "openai:a"')
    assert load(tmp_path).width == 3
    (tmp_path / "kernelsmith.toml").write_text("width = 4")
    assert load(tmp_path).width == 4
    assert load(tmp_path, KERNELSMITH_WIDTH="5").width == 5
    settings = load(tmp_path, {"width": 6, "goal": None, "model": []}, KERNELSMITH_WIDTH="5")
    assert (settings.width, settings.goal, settings.model) == (6, 1.5, ("openai:a",))


def test_pyproject_table_and_relative_runs(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.kernelsmith]\nruns = "elsewhere"\nmax-time = "1h30m"\nmax-usd = 0.1'
    )
    settings = load(tmp_path)
    assert settings.runs == tmp_path / "elsewhere"
    assert settings.max_time == 5400
    assert settings.max_usd == Decimal("0.1")


@pytest.mark.parametrize("name", ["kernelsmith.toml", "pyproject.toml"])
def test_unknown_key_names_file_and_key(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(("[tool.kernelsmith]\n" if "py" in name else "") + "max-trails = 3")
    with pytest.raises(UsageError, match=f"{name}.*max-trails") as caught:
        load(tmp_path)
    assert "max-trials" in caught.value.hint


@pytest.mark.parametrize(
    ("flags", "environ", "place"),
    [({"max_time": "soon"}, {}, "command line"), ({}, {"KERNELSMITH_WIDTH": "many"}, "environment")],
)
def test_bad_value_names_its_source(
    tmp_path: Path, flags: dict[str, object], environ: dict[str, str], place: str
) -> None:
    with pytest.raises(UsageError, match=place):
        load(tmp_path, flags, **environ)


def test_broken_file(tmp_path: Path) -> None:
    (tmp_path / "kernelsmith.toml").write_text("width = ")
    with pytest.raises(UsageError, match=r"kernelsmith\.toml"):
        load(tmp_path)


def test_a_file_of_the_current_folder_cannot_switch_confinement_off(tmp_path: Path) -> None:
    for name, prefix in (("kernelsmith.toml", ""), ("pyproject.toml", "[tool.kernelsmith]\n")):
        for key in ("unsafe-no-sandbox", "unsafe_no_sandbox"):
            (tmp_path / name).write_text(f"{prefix}{key} = true")
            with pytest.raises(UsageError, match=key) as caught:
                load(tmp_path)
            assert "--unsafe-no-sandbox" in caught.value.hint
        (tmp_path / name).unlink()
    write_user(tmp_path, "unsafe-no-sandbox = true")
    assert load(tmp_path).unsafe_no_sandbox


@pytest.mark.parametrize(
    "spec", ["command:agent", "openai:m@https://elsewhere/v1", "openai:m@http://localhost:1/v1?key_env=SECRET"]
)
def test_a_file_of_the_current_folder_cannot_run_programs_or_send_keys(tmp_path: Path, spec: str) -> None:
    write_user(tmp_path, f'model = "{spec}"')
    assert load(tmp_path).model == (spec,)
    (tmp_path / "kernelsmith.toml").write_text('model = ["offline", "anthropic:m", "openai:m@http://localhost:1/v1"]')
    assert len(load(tmp_path).model) == 3
    (tmp_path / "kernelsmith.toml").write_text(f'model = ["offline", "{spec}"]')
    with pytest.raises(UsageError, match="send a key"):
        load(tmp_path)


def test_keys_are_no_settings(tmp_path: Path) -> None:
    (tmp_path / "kernelsmith.toml").write_text('openai-api-key = "x"')
    with pytest.raises(UsageError, match="unknown key"):
        load(tmp_path)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("3m", 180), ("1h30m", 5400), ("1.5m", 90)])
def test_durations(text: str, seconds: float) -> None:
    assert config.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "3 m", "5d", "-3m", "0", "m3"])
def test_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        config.seconds(text)


def test_ten_minutes_without_any_limit(tmp_path: Path) -> None:
    assert load(tmp_path).budget().max_seconds == 600
    assert load(tmp_path, {"max_trials": 3}).budget().max_seconds is None
    assert load(tmp_path, {"goal": 2.0}).budget().max_seconds == 600


def test_limits_given_on_resume_are_those_of_the_command_line_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "kernelsmith"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("max-trials = 3\n")
    given = config.limits({"max_usd": "0.5", "max_trials": None, "width": 4})
    assert (given.max_usd, given.max_seconds, given.max_trials) == (Decimal("0.5"), None, None)


def test_a_team_defines_tolerance_policies(tmp_path: Path) -> None:
    write_user(tmp_path, "[tolerances.mine]\nfloat32 = { rtol = 1e-4, atol = 1e-6 }")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.kernelsmith]\ntolerance = "ours"\n'
        "[tool.kernelsmith.tolerances.ours]\nbfloat16 = { rtol = 0.02, atol = 1e-3 }"
    )
    settings = load(tmp_path)
    assert settings.tolerance == "ours"
    assert {policy.name for policy in settings.tolerances} == {"mine", "ours"}
    assert load(tmp_path, {"tolerance": "mine"}, KERNELSMITH_TOLERANCES="3").tolerance == "mine"


def test_a_broken_policy_names_file_policy_and_key(tmp_path: Path) -> None:
    (tmp_path / "kernelsmith.toml").write_text("[tolerances.ours]\nfloat32 = { rtol = 1e-4, rtoll = 1 }")
    with pytest.raises(UsageError, match=r"kernelsmith\.toml: \[tolerances\.ours\], float32, ") as caught:
        load(tmp_path)
    assert "a line per dtype" in caught.value.hint
