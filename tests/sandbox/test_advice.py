"""What the doctor says to change, from what a machine's own files show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelsmith.sandbox.confine.advice import advise
from kernelsmith.sandbox.limits import Layers

ALL = Layers(
    user_namespace=True,
    pid_namespace=True,
    mount_namespace=True,
    network_namespace=True,
    private_view=True,
    readonly_mounts=True,
    fresh_proc=True,
    landlock_abi=7,
    seccomp=True,
    rlimits=True,
)
NO_NAMESPACES = replace(ALL, user_namespace=False, network_namespace=False, fresh_proc=False)


def machine(folder: Path, **files: str) -> Path:
    """A root with these files; `__` in a name stands for `/`."""
    for name, text in {"proc__sys__kernel__osrelease": "6.8.0-31-generic", **files}.items():
        path = folder / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


def test_nothing_to_change_where_all_holds(tmp_path: Path) -> None:
    assert advise(ALL, machine(tmp_path)) == ()


@pytest.mark.parametrize(
    ("layers", "files", "layer", "words"),
    [
        (NO_NAMESPACES, {"proc__sys__user__max_user_namespaces": "0"}, "namespaces", "max_user_namespaces=15000"),
        (NO_NAMESPACES, {"proc__sys__kernel__unprivileged_userns_clone": "0"}, "namespaces", "userns_clone=1"),
        (
            NO_NAMESPACES,
            {"proc__sys__kernel__apparmor_restrict_unprivileged_userns": "1"},
            "namespaces",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (NO_NAMESPACES, {"DOTdockerenv": ""}, "namespaces", "--security-opt seccomp="),
        (NO_NAMESPACES, {"run__DOTcontainerenv": ""}, "namespaces", "podman"),
        (NO_NAMESPACES, {"proc__sys__user__max_user_namespaces": "96365"}, "namespaces", "allow unprivileged"),
        (
            replace(NO_NAMESPACES, notes=("namespaces: [Errno 38] mount_setattr: Function not implemented",)),
            {"DOTdockerenv": ""},
            "namespaces",
            "5.12",
        ),
        (replace(ALL, network_namespace=False), {}, "network namespace", "network and ipc"),
        (replace(ALL, network_namespace=False), {"DOTdockerenv": ""}, "network namespace", "docker"),
        (replace(ALL, fresh_proc=False), {}, "own /proc", "systempaths=unconfined"),
        (replace(ALL, landlock_abi=0), {"proc__sys__kernel__osrelease": "5.10.0-28-amd64"}, "Landlock", "not 5.10"),
        (replace(ALL, landlock_abi=0), {"sys__kernel__security__lsm": "lockdown,yama"}, "Landlock", "lsm=landlock,"),
        (replace(ALL, landlock_abi=0), {"sys__kernel__security__lsm": "yama,landlock"}, "Landlock", "profile"),
        (replace(ALL, seccomp=False), {}, "seccomp", "aarch64"),
        (replace(ALL, rlimits=False), {}, "resource limits", "ordinary user"),
    ],
)
def test_each_missing_layer_has_its_own(
    tmp_path: Path, layers: Layers, files: dict[str, str], layer: str, words: str
) -> None:
    (advice,) = advise(layers, machine(tmp_path, **files))
    assert advice.layer == layer
    assert words in advice.change


def test_every_missing_layer_is_named(tmp_path: Path) -> None:
    layers = [one.layer for one in advise(Layers(), machine(tmp_path))]
    assert layers == ["namespaces", "Landlock", "seccomp", "resource limits"]
