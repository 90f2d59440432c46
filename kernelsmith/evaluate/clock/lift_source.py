"""From the module that TorchInductor generates to one plain candidate module.

Kernels become `@triton.jit` functions with `@triton.autotune` over their block sizes; the wrapper's allocations, views
and launches become the host function; helper functions of Inductor that the kernels call are inlined from the installed
torch; library matmuls and convolutions become Triton kernels of ours (prompts/lifted/). Everything goes by syntax tree.
A construct that is not understood is a NotLiftableError: the reference simply yields no seed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

from kernelsmith import resources
from kernelsmith.evaluate.clock.lift_helpers import HelperNames, NotLiftableError, helper_sources
from kernelsmith.operators.loaded import LoadedOperator

MARK_PREFIX = "scalar_"
FLOAT32_ROUNDING = 2.0**-23
LIBRARY = {"lifted_matmul": "lifted/matmul.py", "lifted_convolution": "lifted/convolution.py"}
"""Files of `prompts/` that stand in for a library, by the function that is called."""
BLOCKS: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {
    ("XBLOCK",): ((256,), (1024,), (4096,), (16384,)),
    ("YBLOCK", "XBLOCK"): ((1, 1024), (16, 64), (32, 32), (64, 16), (64, 64)),
    ("ZBLOCK", "YBLOCK", "XBLOCK"): ((1, 8, 64), (1, 16, 16), (4, 4, 64)),
    ("XBLOCK", "R0_BLOCK"): ((1, 512), (1, 2048), (1, 8192), (8, 256), (64, 64), (256, 16)),
    ("XBLOCK", "R0_BLOCK", "R1_BLOCK"): ((1, 16, 64), (1, 64, 64), (8, 16, 16)),
}
"""Block sizes to try by the block constants a kernel takes; the runner measures each per workload."""
MOST_BLOCKS = 65535
"""Along a grid's second axis, by CUDA's programming guide."""
ROWS_AT_ONCE = ((1,), (4,), (16,), (64,))
"""XBLOCK of a reduction that holds its whole row (Inductor fixes R0_BLOCK in the kernel then)."""


@dataclass(frozen=True)
class Placeholder:
    """One input of the graph: `source` is dynamo's Python expression, such as `L['x'].size()[0]`."""

    source: str
    is_tensor: bool


@dataclass(frozen=True)
class _Kernel:
    name: str
    parameters: tuple[str, ...]
    """Without the constexpr ones."""
    scalars: tuple[str, ...]
    """The operator's scalars that it takes after these."""
    blocks: tuple[str, ...]
    grid: str
    """Inductor's name of how the grid follows from the sizes."""
    whole_row: bool
    tree: ast.FunctionDef


@dataclass(frozen=True)
class Variant:
    """What Inductor generated for one combination of dtypes."""

    dtypes: dict[str, str]
    """By tensor argument; empty for a KernelBench problem, which has only its own."""
    code: str
    placeholders: tuple[Placeholder, ...]
    marks: dict[str, float]
    """Values that were given for the operator's float scalars, unusual enough to be found again where Inductor made
    constants of them."""


_IN_LANGUAGE = re.compile(r"\blibdevice\.(exp2?|log2?|sqrt|rsqrt|sin|cos|erf|floor|ceil)\b")
"""Functions that the language itself has: not every Triton has a `libdevice`, such as Huawei's."""


def rewrite(variants: Sequence[Variant], operator: LoadedOperator) -> str:
    """The candidate's source text, with one branch per combination of dtypes. Raises NotLiftableError."""
    parts = [_Part.of(variant, number, operator) for number, variant in enumerate(variants)]
    if not any(part.kernels or part.library for part in parts):
        raise NotLiftableError("no Triton kernel was generated")
    texts = [
        f'"""{operator.name}: lifted from what TorchInductor generates for the reference."""',
        "from __future__ import annotations",
        "import math\nfrom math import inf, nan",
        "import torch\nimport triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice",
        "tl_math = tl.math",
        *helper_sources(kernel.tree for part in parts for kernel in part.kernels),
        *(_decorated(kernel) for part in parts for kernel in part.kernels),
    ]
    texts += [_library_source(name) for name in LIBRARY if any(name in part.library for part in parts)]
    texts += _hosts(parts, operator)
    return _IN_LANGUAGE.sub(r"tl.\1", "\n\n".join(texts)) + "\n"


@dataclass(frozen=True)
class _Part:
    """One variant, taken apart: kernels renamed so that they stand beside those of other variants."""

    dtypes: dict[str, str]
    kernels: tuple[_Kernel, ...]
    body: str
    """Statements of the host function, in terms of the operator's parameters."""
    library: frozenset[str]
    """Functions of ours that it calls in place of a library's."""

    @classmethod
    def of(cls, variant: Variant, number: int, operator: LoadedOperator) -> _Part:
        module = ast.parse(variant.code)
        kernels = {k.name: k for k in _kernels(module, variant.marks)}
        call = _find_call(module)
        wrapper = _Body(kernels)
        statements = wrapper.rewrite(call)
        names = _argument_names(call)
        if len(names) != len(variant.placeholders):
            raise NotLiftableError("the wrapper's arguments are not the graph's inputs")
        body = _host_body(operator, names, variant.placeholders, statements)
        for name in kernels:
            body = re.sub(rf"\b{name}\[", f"{name}_{number}[", body)
        renamed = tuple(replace(k, name=f"{name}_{number}") for name, k in kernels.items())
        for kernel in renamed:
            kernel.tree.name = kernel.name
        return cls(variant.dtypes, renamed, body, frozenset(wrapper.library_calls))


def _kernels(module: ast.Module, marks: Mapping[str, float]) -> Iterable[_Kernel]:
    for node in ast.walk(module):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "triton"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "async_compile"
        ):
            name, text = (ast.literal_eval(argument) for argument in node.args[:2])
            yield _kernel(name, text, marks)


class _Marked(ast.NodeTransformer):
    """Constants that are a mark, rounded to float32 or not, become a parameter of the kernel."""

    def __init__(self, marks: Mapping[str, float]) -> None:
        self.marks = marks
        self.found: dict[str, str] = {}
        """Operator's scalar by the kernel's parameter."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        for name, value in self.marks.items():
            if isinstance(node.value, float) and abs(node.value - value) <= FLOAT32_ROUNDING * abs(value):
                self.found[f"{MARK_PREFIX}{name}"] = name
                return ast.Name(f"{MARK_PREFIX}{name}", ast.Load())
        return node


def _kernel(name: str, text: str, marks: Mapping[str, float]) -> _Kernel:
    tree = ast.parse(text)
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    heuristic = next((d for d in function.decorator_list if isinstance(d, ast.Call)), None)
    if heuristic is None:
        raise NotLiftableError(f"kernel {name} has no heuristics")
    meta = next((k.value for k in heuristic.keywords if k.arg == "inductor_meta"), None)
    facts = ast.literal_eval(meta) if meta is not None else {}
    constexprs = [a.arg for a in function.args.args if a.annotation is not None]
    blocks = tuple(c for c in constexprs if c.endswith("BLOCK"))
    if len(blocks) != len(constexprs):
        raise NotLiftableError(f"kernel {name} takes constants {constexprs}")
    kind = heuristic.func.attr if isinstance(heuristic.func, ast.Attribute) else ""
    function.decorator_list = []
    parameters = tuple(a.arg for a in function.args.args if a.annotation is None)
    marked = _Marked(marks)
    function.body = [marked.visit(statement) for statement in function.body]
    function.args.args[len(parameters) : len(parameters)] = [ast.arg(parameter) for parameter in marked.found]
    return _Kernel(
        name=name,
        parameters=parameters,
        scalars=tuple(marked.found.values()),
        blocks=blocks,
        grid=facts.get("grid_type", ""),
        whole_row=kind == "persistent_reduction",
        tree=function,
    )


def _decorated(kernel: _Kernel) -> str:
    sizes_in_arithmetic = [p for p in kernel.parameters if p.startswith("ks")]
    # a size of 1 would become a Python int, which has no `.to(...)`
    jit = f"@triton.jit(do_not_specialize={sizes_in_arithmetic!r})" if sizes_in_arithmetic else "@triton.jit"
    text = f"{jit}\n{ast.unparse(HelperNames().visit(kernel.tree))}"
    if not kernel.blocks:
        return text
    sizes = ROWS_AT_ONCE if kernel.whole_row and kernel.blocks == ("XBLOCK",) else BLOCKS.get(kernel.blocks)
    if sizes is None:
        raise NotLiftableError(f"kernel {kernel.name} has block constants {kernel.blocks}")
    sizes = tuple(size for size in sizes if _masked(text, dict(zip(kernel.blocks, size, strict=True))))
    lines = ["@triton.autotune(", "    configs=["]
    lines += [f"        triton.Config({dict(zip(kernel.blocks, size, strict=True))!r})," for size in sizes]
    lines += ["    ],", f"    key={[p for p in kernel.parameters if p.endswith('numel')]!r},", ")"]
    return "\n".join(lines) + "\n" + text


def _masked(text: str, blocks: Mapping[str, int]) -> bool:
    """Whether a kernel is right with these blocks: Inductor leaves an axis unmasked whose size is a multiple of the
    largest block that it would ever take itself, so that ours must be no larger there."""
    for name, size in blocks.items():
        axis = name.removesuffix("BLOCK")
        unmasked = f"{axis.lower()}mask = tl.full(" in text
        if unmasked and size > TRITON_MAX_BLOCK.get(axis, size):
            return False
    return True


# ---------------------------------------------------------------- the wrapper


def _find_call(module: ast.Module) -> ast.FunctionDef:
    calls = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(calls) != 1:
        raise NotLiftableError("the wrapper has no single call function")
    return calls[0]


def _argument_names(call: ast.FunctionDef) -> list[str]:
    first = call.body[0]
    if not isinstance(first, ast.Assign) or ast.unparse(first.value) != "args":
        raise NotLiftableError("the wrapper does not begin with its arguments")
    target = first.targets[0]
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return [ast.unparse(name) for name in names]


class _Body(ast.NodeTransformer):
    """Rewrites the statements of the wrapper's `call`; notes which functions of ours it calls."""

    SKIPPED = ("args.clear", "assert_size_stride", "assert_alignment", "run_intermediate_hooks")

    def __init__(self, kernels: dict[str, _Kernel]) -> None:
        self.kernels = kernels
        self.library_calls: set[str] = set()

    def rewrite(self, call: ast.FunctionDef) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        layouts = _layouts(call)
        for statement in call.body[1:]:
            if isinstance(statement, ast.Delete):
                continue
            text = ast.unparse(statement)
            if text.startswith(self.SKIPPED) or "get_raw_stream" in text:
                continue
            if not isinstance(statement, ast.Assign | ast.Expr | ast.Return):
                raise NotLiftableError(f"the wrapper holds a {type(statement).__name__} statement")
            if isinstance(statement, ast.Assign) and "extern_kernels.convolution(" in text:
                out += self.convolution(statement, layouts)
            else:
                out.append(self.visit(statement))
        return out

    def convolution(self, statement: ast.Assign, layouts: Mapping[str, str]) -> list[ast.stmt]:
        """An allocation and a call of our kernel in place of the library's, which allocates by itself: its layout is
        what the wrapper asserts afterwards."""
        name, node = ast.unparse(statement.targets[0]), statement.value
        layout = layouts.get(name)
        if not isinstance(node, ast.Call) or layout is None:
            raise NotLiftableError("the wrapper does not say how a convolution's result is laid out")
        x, weight, *bias = (ast.unparse(self.visit(a)) for a in node.args)
        given = {k.arg: ast.unparse(self.visit(k.value)) for k in node.keywords}
        told = ", ".join(given[key] for key in ("stride", "padding", "dilation", "transposed", "groups"))
        self.library_calls.add("lifted_convolution")
        text = f"{name} = torch.empty_strided({layout}, dtype={x}.dtype, device=_device)\n"
        call = f"lifted_convolution({x}, {weight}, {bias[0] if bias else given['bias']}, {name}, {told})"
        return ast.parse(text + call).body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func)
        owner, _, method = name.rpartition(".")
        if owner in self.kernels and method == "run":
            return self.launch(self.kernels[owner], node)
        self.generic_visit(node)
        if name.startswith("empty_strided_"):
            size, stride, dtype = (ast.unparse(a) for a in node.args[:3])
            return _expression(f"torch.empty_strided({size}, {stride}, dtype={dtype}, device=_device)")
        if name == "reinterpret_tensor":
            tensor, size, stride, offset = (ast.unparse(a) for a in node.args)
            return _expression(f"torch.as_strided({tensor}, {size}, {stride}, {tensor}.storage_offset() + {offset})")
        if owner == "extern_kernels":
            return self.library(method, node)
        if name in {"min", "max", "int", "float", "bool"} or owner == "math":
            return node
        raise NotLiftableError(f"the wrapper calls {name}")

    def launch(self, kernel: _Kernel, node: ast.Call) -> ast.AST:
        arguments = [ast.unparse(a) for a in node.args]
        if len(arguments) != len(kernel.parameters):
            raise NotLiftableError(f"kernel {kernel.name} is launched with other arguments than it takes")
        by_name = dict(zip(kernel.parameters, arguments, strict=True))
        axes = {"Grid1D": "x", "Grid2D": "xy", "Grid2DWithYZOverflow": "xy", "Grid3D": "xyz"}.get(kernel.grid)
        if axes is None:
            raise NotLiftableError(f"kernel {kernel.name} has a {kernel.grid or 'nameless'} grid")
        sizes = []
        for axis in axes:
            size, block = by_name.get(f"{axis}numel"), f"{axis.upper()}BLOCK"
            if size is None:
                raise NotLiftableError(f"kernel {kernel.name} has no {axis}numel")
            sizes.append(f"triton.cdiv({size}, meta['{block}'])" if block in kernel.blocks else size)
        if kernel.grid == "Grid2DWithYZOverflow":  # more blocks along y than a device takes are folded into z
            folds = f"triton.cdiv({sizes[1]}, {MOST_BLOCKS})"
            sizes[1:] = [f"triton.cdiv({sizes[1]}, {folds})", folds]
        grid = f"lambda meta: ({', '.join(sizes)},)"
        return _expression(f"{kernel.name}[{grid}]({', '.join([*arguments, *kernel.scalars])})")

    def library(self, name: str, node: ast.Call) -> ast.AST:
        keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
        arguments = [ast.unparse(a) for a in node.args]
        plain = float(keywords.get("alpha", "1")) == 1 and float(keywords.get("beta", "1")) == 1
        if name in {"mm", "bmm"}:
            arguments = ["None", *arguments]
        elif name not in {"addmm", "baddbmm"} or not plain:
            raise NotLiftableError(f"Inductor leaves {name} to a library")
        self.library_calls.add("lifted_matmul")
        return _expression(f"lifted_matmul({', '.join(arguments)}, {keywords['out']})")


def _expression(text: str) -> ast.AST:
    return ast.parse(text, mode="eval").body


def _layouts(call: ast.FunctionDef) -> dict[str, str]:
    """Size and strides, as arguments, by the name of each tensor that the wrapper asserts them of."""
    found = {}
    for node in ast.walk(call):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "assert_size_stride":
            name, size, strides = (ast.unparse(a) for a in node.args[:3])
            found[name] = f"{size}, {strides}"
    return found


def _library_source(name: str) -> str:
    """A function of ours and its kernels, without the module's docstring and imports."""
    tree = ast.parse(resources.read("prompts", LIBRARY[name]))
    kept = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom | ast.Expr)]
    return "\n\n".join(ast.unparse(n) for n in kept)


# ---------------------------------------------------------------- the host function


def _host_body(
    operator: LoadedOperator, arguments: list[str], placeholders: Sequence[Placeholder], statements: list[ast.stmt]
) -> str:
    lines = []
    device = None
    for name, placeholder in zip(arguments, placeholders, strict=True):
        expression = _source(placeholder.source, operator.problem is not None)
        if placeholder.is_tensor:
            device = device or name
            expression += ".contiguous()"  # what the kernels were generated for; no work where it is so already
        lines.append(f"{name} = {expression}")
    if device is None:
        raise NotLiftableError("the graph has no tensor input")
    lines.append(f"_device = {device}.device")
    for statement in statements:
        if isinstance(statement, ast.Return):
            lines.append(_returned(statement, operator))
        else:
            lines.append(ast.unparse(statement))
    return "\n".join(lines)


def _hosts(parts: Sequence[_Part], operator: LoadedOperator) -> list[str]:
    """The entry point: `ModelNew`, or the operator's function that branches by dtype."""
    signature = operator.info.signature
    if operator.problem is not None:
        model = (
            "class ModelNew(torch.nn.Module):\n"
            "    def __init__(self, *args, **kwargs):\n"
            "        super().__init__()\n"
            "        self.model = Model(*args, **kwargs)\n\n"
            f"    {signature}:\n{_indented(parts[0].body, 2)}"
        )
        return [_model_source(operator.info.source), model]
    if len(parts) == 1:
        return [f"{signature}:\n{_indented(parts[0].body, 1)}"]
    hosts, branches = [], []
    for number, part in enumerate(parts):
        name = f"{operator.name}_{number}"
        hosts.append(f"{signature.replace(f'def {operator.name}(', f'def {name}(', 1)}:\n{_indented(part.body, 1)}")
        tests = " and ".join(f"{argument}.dtype == torch.{dtype}" for argument, dtype in part.dtypes.items())
        branches.append(f"if {tests}:\n    return {name}({', '.join(operator.arguments)})")
    branches.append("raise TypeError('no kernel for these dtypes')")
    return [*hosts, f"{signature}:\n{_indented(chr(10).join(branches), 1)}"]


def _returned(statement: ast.Return, operator: LoadedOperator) -> str:
    value = statement.value
    items = [ast.unparse(e) for e in value.elts] if isinstance(value, ast.Tuple) else []
    if not items and operator.mutates:
        return f"return {operator.mutates[0]}"
    return f"return {items[0]}" if len(items) == 1 else f"return ({', '.join(items)},)"


def _source(expression: str, is_model: bool) -> str:
    """Dynamo's expression in terms of the host function's parameters."""
    if is_model and (found := re.search(r"(\._(?:modules|parameters|buffers)\[.*)$", expression)):
        return f"self.model{found.group(1)}"
    if not (found := re.match(r"L\['(\w+)'\](.*)$", expression)):
        raise NotLiftableError(f"an input of the graph comes from {expression}")
    return found.group(1) + found.group(2)


def _model_source(source: str) -> str:
    """The problem file without its input makers."""
    tree = ast.parse(source)
    makers = {"get_inputs", "get_init_inputs"}
    kept = [n for n in tree.body if not (isinstance(n, ast.FunctionDef) and n.name in makers)]
    return "\n".join(ast.unparse(n) for n in kept)


def _indented(text: str, depth: int) -> str:
    return "\n".join("    " * depth + line for line in text.splitlines())
