"""The file tree that confined processes see: a new, read-only root holding only what running kernels takes.

Invariant: outside its own scratch a child finds system libraries and tools, the interpreter with its packages, and
what the caller listed; homes, /tmp, /var, /run and every secret in them are not denied but absent. Since the folders
are bound one by one, an interpreter below a 0700 home is reachable while the rest of that home is not. entry.py
builds it once per zygote; where mounts are not allowed, the same list becomes Landlock's.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.sandbox.confine import linux

SCRATCH = "/scratch"
WARM = "/warm"
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    *("/opt/rocm*", "/opt/nvidia", "/opt/intel", "/opt/hpcx"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/OpenCL"),
    *("/sys/devices/system", "/sys/class/kfd", "/sys/class/drm", "/sys/bus/pci/devices", "/sys/module/nvidia"),
)
_PLAIN_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True)
class Paths:
    """What may be read and executed, and which device nodes may be used: absolute, existing, real paths included."""

    read: tuple[str, ...]
    devices: tuple[str, ...]
    accelerators: bool  # whether any of the devices is more than /dev/null and its like


def needed(package: str, extra: Sequence[str], modules: Iterable[str] = ("torch", "triton")) -> Paths:
    """The paths for this interpreter, this package (its folder) and the caller's `extra` ones.

    Import paths that are no folders of installed packages, such as the checkouts that editable installs add, may hold
    anything: of them, only the `modules` are shown.
    """
    imports = [*filter(_holds_packages, sys.path), *_folders(modules)]
    libraries = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    listed = [*_expand(_SYSTEM), sys.prefix, sys.base_prefix, *imports, package, *libraries, *extra]
    accelerators = [path for path in extra if _is_device(path)]
    # Mapped as shared memory, /dev/zero hides what is used; accelerators' drivers do that.
    nodes = [*_PLAIN_DEVICES, *accelerators, *(["/dev/zero"] if accelerators else [])]
    return Paths(
        read=outermost(path for path in listed if not _is_device(path)),
        devices=tuple(dict.fromkeys(path for path in nodes if _is_device(path))),
        accelerators=bool(accelerators),
    )


def _holds_packages(entry: str) -> bool:
    path = Path(entry)
    own = any(path.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix))
    return own or path.name in ("site-packages", "dist-packages")


def _folders(modules: Iterable[str]) -> Iterator[str]:
    """Where the top-level packages of these modules lie, or the files of plain ones; nothing is imported."""
    for name in dict.fromkeys(module.partition(".")[0] for module in modules):
        if spec := importlib.util.find_spec(name):
            yield from spec.submodule_search_locations or [spec.origin or ""]


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Existing paths, each with the real path behind it, sorted, without those inside another one of them."""
    forms = {str(form) for path in paths for form in (Path(path).absolute(), Path(path).resolve()) if form.exists()}
    forms.discard("/")  # "everything" is not a list of what is needed
    kept: list[str] = []
    for path in sorted(forms):
        if not any(path.startswith(f"{folder}/") for folder in kept):
            kept.append(path)
    return tuple(kept)


def build(base: str, paths: Paths, *, writable: Sequence[str] = ()) -> None:
    """Mount the view at `base`, an empty folder, and make it the root of this process's own mount namespace.

    `writable` folders are shown as they are; their own users may write them.
    """
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", base, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    for path in (*paths.read, *paths.devices):
        _place(base, path)
    for folder in (SCRATCH, WARM, "/proc", "/dev", *writable):
        Path(base + folder).mkdir(parents=True, exist_ok=True)
    Path(f"{base}/dev/shm").symlink_to(SCRATCH)  # POSIX semaphores and shared memory land in the child's own scratch
    Path(f"{base}/dev/fd").symlink_to("/proc/self/fd")
    linux.mount_readonly(base)
    # After it: the user namespace is mapped through /proc, and a child may mount its own only where one is whole.
    linux.mount("/proc", f"{base}/proc", None, linux.MS_BIND | linux.MS_REC)
    for folder in writable:
        linux.mount(folder, base + folder, None, linux.MS_BIND)
    linux.enter_root(base)


def _place(base: str, path: str) -> None:
    """Show `path` at the same place in the view; links stay links, what they lead to is listed as well."""
    source, target = Path(path), Path(base + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    linux.mount(path, str(target), None, linux.MS_BIND | linux.MS_REC)


def _expand(patterns: Iterable[str]) -> list[str]:
    return [path for pattern in patterns for path in map(str, Path("/").glob(pattern[1:]))]


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(Path(path).stat().st_mode)
    except OSError:
        return False
