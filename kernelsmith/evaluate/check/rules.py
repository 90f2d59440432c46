"""What a candidate may not say, as tables: names, why not, and what to write instead. screen.py looks for them.

Invariant: nothing stands here that honest kernels need. A name is judged by what it stands for (`F.os` is
`torch.nn.functional.os`), a module of the standard library by what it exports on purpose.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

ALLOWED_IMPORTS = frozenset(
    {
        "__future__",
        "abc",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "logging",
        "math",
        "numbers",
        "operator",
        "torch",
        "triton",
        "typing",
        "typing_extensions",
        "warnings",
    }
)
"""Top-level modules: torch, triton and the part of the standard library that reaches neither files nor processes."""
LIBRARIES = frozenset({"torch", "triton"})

KERNEL_INSTEAD = "write the arithmetic as a @triton.jit kernel"
JUDGE_MEASURES = "leave it out: the judge measures, under its own clock"
NO_FILES = "leave it out: a candidate has no files, processes or network"
PLAIN_TENSORS = "return plain tensors made by torch.empty and filled by your kernels"
NUMBERED = (
    "write the attribute's name, keep numbered values in a list, dict, torch.nn.ModuleList or ParameterList, "
    "or use self.get_parameter and self.get_buffer"
)
NO_INSIDES = "leave it out: kernels need no look into the interpreter"

FORBIDDEN_PATHS: Mapping[str, str] = {
    "torch.compile": KERNEL_INSTEAD,
    "torch.jit.script": KERNEL_INSTEAD,
    "torch.jit.trace": KERNEL_INSTEAD,
    "torch.jit.load": NO_FILES,
    "torch.jit.save": NO_FILES,
    "torch.load": NO_FILES,
    "torch.save": NO_FILES,
    "torch.serialization": NO_FILES,
    "torch.package": NO_FILES,
    "torch.hub": NO_FILES,
    "torch.from_file": NO_FILES,
    "torch.classes": NO_FILES,
    "torch.utils.data": NO_FILES,
    "torch.utils.cpp_extension": KERNEL_INSTEAD,
    "torch.utils.dlpack": PLAIN_TENSORS,
    "torch.utils._python_dispatch": PLAIN_TENSORS,
    "torch.overrides": PLAIN_TENSORS,
    "torch.from_numpy": KERNEL_INSTEAD,
    "torch.frombuffer": KERNEL_INSTEAD,
    "torch.multiprocessing": NO_FILES,
    "torch.distributed": NO_FILES,
    "torch.testing": "leave it out: the judge compares",
    "torch.profiler": JUDGE_MEASURES,
    "torch.cuda.Event": JUDGE_MEASURES,
    "torch.cuda.CUDAGraph": "launch the kernels directly: a captured graph is no plan",
    "torch.cuda.graph": "launch the kernels directly: a captured graph is no plan",
    "torch.cuda.cudart": NO_INSIDES,
    "torch._inductor": KERNEL_INSTEAD,
    "torch._dynamo": NO_INSIDES,
    "torch._ops": NO_INSIDES,
    "torch.ops.aten": f"call torch.empty and views by their own names, and {KERNEL_INSTEAD}",
    "torch.ops.prims": KERNEL_INSTEAD,
    "torch.ops.inductor": KERNEL_INSTEAD,
    "torch.library.Library": "use torch.library.custom_op or triton_op; operators of torch stay as they are",
    "torch.library.impl": "use torch.library.custom_op or triton_op; operators of torch stay as they are",
    "torch.library.register_torch_dispatch": PLAIN_TENSORS,
    "triton.runtime.driver": "take the number of programs from the shape or torch.cuda.get_device_properties",
    "triton.backends": NO_INSIDES,
    "triton.compiler": NO_INSIDES,
    "triton.knobs": "leave it out: options belong into triton.Config or the launch",
    "triton.testing": JUDGE_MEASURES,
    "logging.FileHandler": NO_FILES,
    "logging.handlers": NO_FILES,
    "logging.config": NO_FILES,
    "logging.basicConfig": "use logging.getLogger(__name__) alone",
    "typing.get_type_hints": "leave it out: it evaluates text as code",
    "typing_extensions.get_type_hints": "leave it out: it evaluates text as code",
    "dataclasses.make_dataclass": "write the class with @dataclass",
}
"""Full names, and what to do instead; whatever lies below one is meant too."""

FORBIDDEN_BUILTINS: Mapping[str, str] = {
    "exec": "write the code itself",
    "eval": "write the expression itself",
    "compile": "write the code itself",
    "__import__": "use an import statement",
    "__builtins__": NO_INSIDES,
    "__loader__": NO_INSIDES,
    "__spec__": NO_INSIDES,
    "open": NO_FILES,
    "breakpoint": "leave it out: nobody is there to answer",
    "globals": "name what you mean",
}
"""Whether they are called or given another name; unless the module defines them itself."""
FORBIDDEN_CALLS: Mapping[str, str] = {
    "input": "leave it out: nobody is there to answer",
    "vars": "name what you mean",
    "locals": "name what you mean",
    "setattr": NUMBERED,
    "delattr": "leave attributes alone",
}
"""Calls only: as names of arguments they are common."""

FORBIDDEN_ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("__globals__", "__code__", "__closure__", "__builtins__", "__subclasses__", "__base__", "__bases__"),
            *(
                "__mro__",
                "mro",
                "__getattribute__",
                "__reduce__",
                "__reduce_ex__",
                "__self__",
                "__func__",
                "__loader__",
            ),
            *("__spec__", "__import__", "f_globals", "f_locals", "f_builtins", "f_code", "f_back", "tb_frame"),
            *("gi_frame", "gi_code", "cr_frame", "ag_frame", "_getframe", "_C", "_evaluate"),
        ),
        NO_INSIDES,
    ),
    "load_library": NO_FILES,
    "load_inline": KERNEL_INSTEAD,
    "from_file": NO_FILES,
    "numpy": KERNEL_INSTEAD,
    "__array__": KERNEL_INSTEAD,
    "_make_subclass": PLAIN_TENSORS,
    "_make_wrapper_subclass": PLAIN_TENSORS,
}
"""Whatever they are looked up on."""
FORBIDDEN_METHODS: Mapping[str, str] = {
    "__torch_dispatch__": PLAIN_TENSORS,
    "__del__": "leave it out: what happens after the call does not count",
}
"""That no class may define."""
FOREIGN_MODULES = frozenset(
    {
        *("sys", "os", "io", "subprocess", "ctypes", "builtins", "importlib", "inspect", "threading", "socket", "gc"),
        *("shutil", "tempfile", "pickle", "pathlib", "glob", "mmap", "multiprocessing", "platform", "linecache"),
        *("traceback", "weakref", "atexit", "pkgutil", "runpy", "_C"),
    }
)
"""What torch and triton have imported for themselves and so offer as attributes; no candidate needs it of them."""


@cache
def exported(module: str) -> frozenset[str] | None:
    """Names that a module of the standard library offers on purpose; None for other modules."""
    if module.split(".")[0] in LIBRARIES or module.split(".")[0] not in ALLOWED_IMPORTS:
        return None
    try:
        found = importlib.import_module(module)
    except ImportError:
        return None
    public = getattr(found, "__all__", None)
    names = public if public is not None else [name for name in vars(found) if not name.startswith("_")]
    return frozenset(names) | ({"abc"} if module == "collections" else frozenset())


def forbidden_advice(path: str) -> str | None:
    """What to do instead of using `path`, where that is an entry of FORBIDDEN_PATHS or lies below one."""
    parts = path.split(".")
    wholes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((FORBIDDEN_PATHS[whole] for whole in wholes if whole in FORBIDDEN_PATHS), None)
