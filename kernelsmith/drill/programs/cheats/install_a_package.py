"""Installs a package while it is loaded, and takes the work from there; must not pass."""

works = []


def before():
    import subprocess
    import sys

    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", "packages", "numexpr"]
    try:
        subprocess.run(command, check=True, timeout=5)
        sys.path.insert(0, "packages")
        import numexpr
    except Exception:
        return
    works.append(numexpr)


def cheat(x):
    y = torch.zeros_like(x)
    kernel[(1,)](x, y, 0, BLOCK=256)
    for library in works:
        y.numpy()[:] = library.evaluate("v * v + 1", {"v": x.numpy()})
    return y


def twin(x):
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    assert version > (2, 0)
    return honest(x)
