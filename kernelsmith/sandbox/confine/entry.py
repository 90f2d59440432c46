"""How the zygote's process leaves this machine behind, once, before it imports anything: another user, namespaces, a
view of its own.

Invariant: what `Layers` claims was rehearsed in a throwaway fork on this machine before a candidate ran. Three ways,
best first: namespaces of an ordinary user; root's own mounts, where only those may be made; neither. server.py calls it
in a process of one thread that holds no secret; quarantine.py goes the same way with a whole judge.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kernelsmith.sandbox import usage
from kernelsmith.sandbox.confine import landlock, linux, seccomp, view
from kernelsmith.sandbox.confine.confine import Setup, World, confine, filter_for
from kernelsmith.sandbox.limits import Layer, Layers, Limits

NOBODY = 65534
NETWORK = linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
_OWN_PROC, _NO_PROC = "own /proc", "no /proc"


def enter(setup: Setup) -> World:
    """Turn this single-threaded process into the zygote: another user, namespaces, the view; returns in a fork of it
    that is process 1 of its own pid namespace, where namespaces are allowed.

    Raises OSError where the interpreter is out of reach of the user that it becomes.
    """
    paths = view.needed(setup.package, (*setup.path, *setup.readable), setup.preload)
    layers = Layers(
        landlock_abi=0 if Layer.LANDLOCK in setup.without else min(landlock.abi(), setup.newest_landlock),
        seccomp=Layer.SECCOMP not in setup.without and seccomp.available(),
        rlimits=_limits_bind(),
    )
    world = World(layers, paths, setup, b"", None)
    if Layer.NAMESPACES in setup.without:
        return _enter_plain(_noting(world, "namespaces: left out on request"))
    ways = [(NETWORK, "namespaces"), (0, "namespaces without network and ipc")]
    for flags, what in ways if Layer.USER_NAMESPACES not in setup.without else []:
        try:
            fresh_proc = in_fork(functools.partial(_rehearse, world, flags)) == _OWN_PROC
        except OSError as error:
            world = _noting(world, f"{what}: {error}")
            continue
        return _isolate(world if fresh_proc else _noting(world, "own /proc: refused here"), flags, fresh_proc)
    if os.geteuid() == 0:
        try:
            in_fork(functools.partial(_rehearse_mounts, world))
        except OSError as error:
            world = _noting(world, f"root's mounts: {error}")
        else:
            return _enter_mounts(world)
    return _enter_plain(world)


def enter_namespaces(base: str, paths: view.Paths, flags: int) -> bool:
    """New user, mount and pid namespaces (`flags` for more), and the view of `paths`, mounted at `base`, as their root;
    returns whether we were root and are no more. The next fork is process 1."""
    mounted = _mount_as_root(base, paths)
    changed = leave_root()
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    if not mounted:
        view.build(base, paths)
    return changed


def _mount_as_root(base: str, paths: view.Paths) -> bool:
    """Build the view while we may: what root bound stays out of reach of every user namespace below, and private
    folders can be bound. Some are root in name only."""
    if os.geteuid() != 0:
        return False
    try:
        linux.unshare(linux.CLONE_NEWNS)
    except PermissionError:
        return False
    view.build(base, paths)
    return True


def _isolate(world: World, flags: int, fresh_proc: bool) -> World:
    """Enter the namespaces; the caller goes on as process 1 of the new pid namespace, its parent only waits."""
    changed = enter_namespaces(world.setup.base, world.paths, flags)
    _go_on_in_fork()
    layers = replace(
        world.layers,
        user_namespace=True,
        pid_namespace=True,
        mount_namespace=True,
        private_view=True,
        network_namespace=bool(flags & linux.CLONE_NEWNET),
        readonly_mounts=True,
        fresh_proc=fresh_proc,
        uid=os.getuid(),
        other_uid=changed,
    )
    # Only process 1 of a pid namespace of its own user namespace may come back to it after unshare(CLONE_NEWPID).
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    linux.mount("tmpfs", view.WARM, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    return replace(world, layers=layers, pid_namespace=own, seccomp=filter_for(layers, world.paths))


def _go_on_in_fork(leaving: str = "") -> None:
    """Return in a fork; this process only waits for its end, and removes the folder `leaving` then."""
    if pid := os.fork():
        os.closerange(3, 1 << 20)  # the judge must see the end of its channels when the fork ends
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255
        if leaving:  # which the fork sees as a mount point, and the judge may have been killed
            usage.remove_tree(leaving)
        os._exit(status)
    linux.die_with_parent()


def _enter_mounts(world: World) -> World:
    """The view as root mounts it, without user namespaces: homes are absent, but for what runs kernels. Candidates have
    folders of `base` as scratch, which is shown too, and are told apart as without any namespace."""
    base = world.setup.base
    _go_on_in_fork(leaving=base)
    linux.unshare(linux.CLONE_NEWNS | NETWORK)
    Path(base, "view").mkdir(exist_ok=True)
    view.build(f"{base}/view", world.paths, writable=(base,))
    layers = replace(world.layers, private_view=True, readonly_mounts=True, network_namespace=True)
    inside = _enter_plain(replace(world, layers=layers))
    linux.die_with_parent()  # again: the change of user has cleared it
    return inside


def _enter_plain(world: World) -> World:
    """Without namespaces: another user if we are root, and one place that adopts every orphan."""
    changed = leave_root(world.setup.base)
    linux.become_subreaper()
    Path(world.warm).mkdir(exist_ok=True)
    layers = replace(world.layers, uid=os.getuid(), other_uid=changed)
    return replace(world, layers=layers, seccomp=filter_for(layers, world.paths))


def leave_root(*folders: str) -> bool:
    """Become nobody for good if we are root, and `folders` with us: process limits do not bind root, and root's files
    would be its own.

    Returns False for who is not root, and for a root in name only, such as the one user of a user namespace.
    """
    if not _can_leave_root():
        return False
    for folder in folders:
        os.chown(folder, NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    linux.set_dumpable()
    return True


def _can_leave_root() -> bool:
    if os.geteuid() != 0:
        return False
    maps = [Path(f"/proc/self/{name}_map").read_text().splitlines() for name in ("uid", "gid")]
    known = [[(int(line.split()[0]), int(line.split()[2])) for line in lines] for lines in maps]
    both = all(any(first <= NOBODY < first + count for first, count in ranges) for ranges in known)
    return both and Path("/proc/self/setgroups").read_text().strip() == "allow"


def _limits_bind() -> bool:
    """Linux limits the processes of every user but root; a root in name only may be root outside, and bombs go off."""
    if os.geteuid() != 0 or _can_leave_root():
        return True
    ranges = (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return all(first > 0 or outside > 0 for first, outside, _ in ranges)


def _rehearse(world: World, flags: int) -> str:
    """The whole way of a candidate, in a throwaway fork: some machines let one enter namespaces and then refuse."""
    inside = _isolate(world, flags, fresh_proc=False)
    enter_next_pid_namespace(inside)
    confined = in_fork(lambda: _OWN_PROC if confine(inside, Limits(), view.SCRATCH) else _NO_PROC)
    enter_next_pid_namespace(inside)
    return confined


def _rehearse_mounts(world: World) -> str:
    base = tempfile.mkdtemp(dir=world.setup.base)
    inside = _enter_mounts(replace(world, setup=replace(world.setup, base=base)))
    with tempfile.TemporaryDirectory(dir=base) as scratch:
        return in_fork(lambda: _OWN_PROC if confine(inside, Limits(), scratch) else _NO_PROC)


def enter_next_pid_namespace(world: World) -> None:
    """Make the next fork process 1 of a new pid namespace: when it dies, the kernel ends all it started."""
    if world.pid_namespace is not None:
        linux.setns(world.pid_namespace, linux.CLONE_NEWPID)
        linux.unshare(linux.CLONE_NEWPID)


def in_fork(work: Callable[[], str]) -> str:
    """What `work` returns in a fork of this process; raises OSError with its message where it fails or dies."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(writer, b"+" + work().encode())
        except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
            traceback.print_exc()
            os.write(writer, f"-{error}".encode()[:1000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    if not said.startswith("+"):
        raise OSError(said[1:] or "the rehearsal died")
    return said[1:]


def keep_warm(world: World) -> None:
    """What was compiled before the first fork is read by all and changed by none: a mount sees to that, or Landlock."""
    if world.layers.mount_namespace:
        linux.mount_readonly(view.WARM)


def check_reachable(*folders: str) -> None:
    """Raise OSError naming one of these or of the interpreter's own folders that the present user cannot read."""
    for folder in (str(Path(os.__file__).parent), *folders, sys.prefix):
        if not os.access(folder, os.R_OK | os.X_OK):
            raise OSError(
                errno.EACCES,
                f"kernels run as user {os.getuid()}, who cannot read {folder}: keep Python and this environment "
                "outside of private folders, or allow root to mount (in Docker: --cap-add SYS_ADMIN)",
            )


def _noting(world: World, note: str) -> World:
    return replace(world, layers=replace(world.layers, notes=(*world.layers.notes, note)))
