"""Puts a library's kernel and our host function into one module, as a candidate has to be.

A host file is ordinary Python that imports kernels from their project, as in `from fla.modules.l2norm import kernel`.
`bundled` replaces these imports by the text that they name, read from a folder of clones, and by whatever of its module
that text needs. Names that the host file itself defines or imports come first, so it can stand in for a project's
device helpers. Of decorators only `triton.jit` stays: the host gives the sizes that a tuner would choose. What is put
together here is never kept in this repository.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

OWN_IMPORTS = ("torch", "triton", "math", "__future__", "typing")
"""What a candidate may import itself."""


@dataclass(frozen=True)
class Project:
    """A clone: its folder's name, where to clone it from, and which package lies where in it."""

    folder: str
    repository: str
    commit: str
    """The one that the table was made with."""
    package: str
    root: str
    """Folder that holds the package, or the modules if the project has no package."""


PROJECTS = (
    Project(
        "Liger-Kernel",
        "github.com/linkedin/Liger-Kernel",
        "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
        "liger_kernel",
        "src",
    ),
    Project("FlagGems", "github.com/FlagOpen/FlagGems", "532ff438c70343d7aec9becdabb76a71225a0553", "flag_gems", "src"),
    Project("unsloth", "github.com/unslothai/unsloth", "015bdef0d94a241bcd94eec7a405b1700632180d", "unsloth", "."),
    Project(
        "flash-linear-attention",
        "github.com/fla-org/flash-linear-attention",
        "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
        "fla",
        ".",
    ),
    Project("triton", "github.com/triton-lang/triton-cpu", "910ba2e98deb5180a5fb8f204f57cd6e71d2436a", "python", "."),
    Project("TritonBench", "github.com/thunlp/TritonBench", "603e28a5050e8c268f6883a69709d477a272d49a", "data", "."),
)


class BundleError(Exception):
    """A text cannot be put together: what is missing, and where."""


def bundled(host: Path, sources: Path) -> str:
    """The candidate's text."""
    tree = ast.parse(host.read_text(encoding="utf-8"))
    kernels = [n for n in tree.body if isinstance(n, ast.ImportFrom) and _project(n.module or "")]
    taken = _Taken(sources, set(_bound(n for n in tree.body if n not in kernels)))
    rest = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node in kernels:
            for alias in node.names:
                taken.take(_place(node.module or "", sources), alias.name)
        else:
            rest.append(node)
    imports = [n for n in rest if isinstance(n, ast.Import | ast.ImportFrom)]
    ours = [n for n in rest if not isinstance(n, ast.Import | ast.ImportFrom)]
    late = [n for n in ours if isinstance(n, ast.FunctionDef) and not n.decorator_list]
    early = [n for n in ours if n not in late]
    body = [*taken.imports.values(), *imports, *early, *taken.texts, *late]
    return "\n\n".join(n if isinstance(n, str) else ast.unparse(n) for n in body) + "\n"


def projects_of(host: Path) -> list[Project]:
    """Where its kernels are from."""
    tree = ast.parse(host.read_text(encoding="utf-8"))
    packages = {(n.module or "").split(".")[0] for n in tree.body if isinstance(n, ast.ImportFrom)}
    return [project for project in PROJECTS if project.package in packages]


def _project(module: str) -> Project | None:
    return next((project for project in PROJECTS if module.split(".")[0] == project.package), None)


def _place(module: str, sources: Path) -> Path:
    """The file of a module of one of the projects; a tutorial's number and dashes need not be said."""
    project = _project(module)
    assert project is not None
    base = sources / project.folder / project.root / Path(*module.split("."))
    try:
        return _file(base)
    except BundleError as error:
        raise BundleError(f"no {module} below {sources / project.folder}: clone {project.repository}") from error


def _file(base: Path) -> Path:
    numbered = base.parent.glob(f"[0-9][0-9]-{base.name.replace('_', '-')}.py")
    for path in (base.with_suffix(".py"), base / "__init__.py", *numbered):
        if path.is_file():
            return path
    raise BundleError(f"no file {base}.py")


@dataclass
class _Taken:
    """Definitions taken so far, in an order in which each stands after what it needs."""

    sources: Path
    known: set[str]
    imports: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    _modules: dict[Path, dict[str, ast.stmt]] = field(default_factory=dict)

    def take(self, path: Path, name: str) -> None:
        """One top-level name of a module, with all it needs."""
        if name in self.known:
            return
        node = self._names(path).get(name)
        if node is None:
            raise BundleError(f"{path.name} defines no {name}")
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(path, node, name)
            self.known.add(name)
            return
        self.known.add(name)
        _plain(node)
        for needed in _needed(node):
            if needed in self._names(path):
                self.take(path, needed)
        self.texts.append(ast.unparse(node))

    def _import(self, path: Path, node: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(a for a in node.names if (a.asname or a.name.split(".")[0]) == name)
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        if isinstance(node, ast.ImportFrom) and (node.level or _project(module)):
            beside = path.parents[node.level - 1] / Path(*module.split(".")) if node.level else None
            self.take(_place(module, self.sources) if beside is None else _file(beside), alias.name)
            if alias.name != name:
                self.texts.append(f"{name} = {alias.name}")
        elif module.split(".")[0] in OWN_IMPORTS:
            whole = ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom) else ast.Import([alias])
            self.imports[name] = ast.unparse(whole)
        else:
            raise BundleError(f"{path.name} needs {name} of {module}: let the host file define it")

    def _names(self, path: Path) -> dict[str, ast.stmt]:
        if path not in self._modules:
            body = ast.parse(path.read_text(encoding="utf-8")).body
            self._modules[path] = {name: node for node in _flat(body) for name in _bound([node])}
        return self._modules[path]


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those inside of `if` and `try` too; the first branch wins."""
    for node in body:
        if isinstance(node, ast.If):
            yield from [*_flat(node.orelse), *_flat(node.body)]
        elif isinstance(node, ast.Try):
            yield from [*(n for handler in node.handlers for n in _flat(handler.body)), *_flat(node.body)]
        else:
            yield node


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that statements give a meaning, kernels that are imported from a project excepted."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (a.asname or a.name.split(".")[0] for a in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (t.id for t in targets if isinstance(t, ast.Name))


def _plain(node: ast.stmt) -> None:
    """Without decorators other than triton.jit, which alone make a kernel."""
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = [d for d in node.decorator_list if ast.unparse(d).startswith("triton.jit")]


def _needed(node: ast.stmt) -> list[str]:
    """Global names that a definition reads."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)} | {
        n.arg for n in ast.walk(node) if isinstance(n, ast.arg)
    }
    return sorted({n.id for n in names} - own - set(dir(builtins)))
