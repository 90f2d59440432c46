from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kernelsmith import resources, targets
from kernelsmith.errors import UsageError
from kernelsmith.targets.page import WIDTH, page, table

CPU = resources.read("targets", "cpu.toml")
H200 = resources.read("targets", "nvidia-h200.toml")


def folder(tmp_path: Path, **files: str) -> Path:
    """Target files; those of families by `families_NAME`."""
    for name, text in files.items():
        path = tmp_path / f"{name.replace('_', '/')}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


def refused(name: str, place: Path) -> str:
    """What a person is told, with the file in it."""
    with pytest.raises(UsageError) as caught:
        targets.load(name, place)
    assert str(place) in caught.value.message
    return f"{caught.value.message} {caught.value.hint}"


# ---------------------------------------------------------------- shipped


@pytest.mark.parametrize("name", targets.available())
def test_every_shipped_target_loads_with_a_source_for_each_fact_and_has_its_knowledge(name: str) -> None:
    target = targets.load(name)
    facts = targets.facts(target)
    assert facts.name == name
    assert "## Triton" in facts.notes
    stated = target.model_dump(exclude_defaults=True, exclude_none=True)
    for table_name in ("limits", "multiprocessor", "cores", "triton", "toolchain", "access"):
        for key in stated.get(table_name, {}):
            assert f"{table_name}.{key}" in target.sources
    for key in ("memory_bytes", "l2_bytes", "clock_mhz", "visible_devices", "torch_device"):
        assert key in target.sources or key not in stated
    for key, peak in target.peaks:
        assert f"peaks.{key}" in target.sources or peak in ("measure", None)


def test_devices_of_all_vendors_are_described() -> None:
    wanted = (
        "nvidia-a100 nvidia-l40s nvidia-rtx4090 nvidia-h100 nvidia-h200 nvidia-b200 amd-mi300x amd-mi350x amd-rx7900"
    )
    wanted += " intel-max ascend-910b1 ascend-910b2 ascend-910b3 ascend-910b4 ascend-910c ascend-950"
    wanted += " cambricon kunlunxin iluvatar metax mthreads hygon enflame cpu"
    assert set(wanted.split()) <= set(targets.available())


def test_limits_agree_with_each_other() -> None:
    for name in targets.available():
        target = targets.load(name)
        unit, limits, lanes = target.multiprocessor, target.limits, target.triton.warp_size
        if unit is None or unit.warps is None:
            continue
        assert unit.threads in (None, unit.warps * lanes)
        assert (limits.shared_memory_bytes or 0) + (unit.shared_memory_reserved_bytes or 0) <= (
            unit.shared_memory_bytes or 0
        )
        if unit.registers and unit.register_unit:
            assert unit.registers % unit.register_unit == 0
            assert unit.register_unit % lanes == 0


def test_what_a_proposer_is_told_of_an_npu() -> None:
    facts = targets.facts(targets.load("ascend-910b3"))
    assert facts.limits["unified_buffer_bytes"] == 196_608
    assert facts.limits["vector_cores"] == 40
    assert facts.limits["grid_total_programs"] == 65_535
    assert "- unsupported: tl.sort" in facts.notes and "Instead: use int32." in facts.notes
    assert "becomes a loop" in facts.notes
    assert "arithmetic on blocks of int64" not in targets.facts(targets.load("ascend-950")).notes


# ---------------------------------------------------------------- names


def test_the_cpu_is_found_by_name_and_by_torch_device() -> None:
    target = targets.resolve("cpu")
    assert (target.name, target.torch_device, target.triton.backend) == ("cpu", "cpu", "cpu")
    assert "num_warps" in targets.facts(target).useless_knobs


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        targets.resolve("nvidia-h20")
    assert "'nvidia-h20', did you mean nvidia-h200?" in caught.value.message
    with pytest.raises(UsageError, match=r"did you mean nvidia-h100\?"):
        targets.resolve("NVIDIA-H100")
    assert "cpu" in caught.value.hint


def test_a_torch_device_that_several_targets_have_must_be_named(tmp_path: Path) -> None:
    card = CPU.replace('torch_device = "cpu"', 'torch_device = "vpu"')
    one = folder(tmp_path, **{"vpu-a": card.replace('name = "cpu"', 'name = "vpu-a"')})
    assert targets.resolve("vpu", one).name == "vpu-a"
    two = folder(tmp_path, **{"vpu-b": card.replace('name = "cpu"', 'name = "vpu-b"')})
    with pytest.raises(UsageError, match="vpu-a, vpu-b"):
        targets.resolve("vpu", two)


# ---------------------------------------------------------------- bad files


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("[limits]", "[limits]\nwarp_speed = 9", "limits.warp_speed: unknown key keys here: tile_elements"),
        ("[limits]", "[limits]\nshared_memory_kib = 64", "unknown key, did you mean shared_memory_bytes?"),
        ("[limits]", "[limits]\nshared_memory_bytes = 227", "limits.shared_memory_bytes: Input should be greater"),
        ("[limits]", "[limits]\nshared_memory_bytes = 227", "the key's name is its unit"),
        ("[limits]", "[limits]\nshared_memory_bytes = 65_536", 'add "limits.shared_memory_bytes" = '),
        ('memory_gb_per_s = "measure"', "memory_gb_per_s = 90", "peaks.memory_gb_per_s: no source"),
        ('memory_gb_per_s = "measure"', 'memory_gb_per_s = "fast"', "peaks.memory_gb_per_s:"),
        ('memory_gb_per_s = "measure"', "memory_gb_per_s = inf", "peaks.memory_gb_per_s:"),
        ("[sources]", '[toolchain]\ndistribution = "t"\npython = ["new"]\n[sources]', "toolchain.python:"),
        ("[sources]", '[sources]\n"limits.l0c_bytes" = "a page"', "sources.limits.l0c_bytes: the file states no such"),
        ("[sources]", "[sources]\nlimits = 5", "sources.limits: not a text"),
        ("[sources]", '[lint.tea]\nlevel = "slow"\nsays = "s"\nsource = "s"\n[sources]', "lint.tea"),
        (
            "[sources]",
            '[lint.sort]\nlevel = "slow"\nsays = "s"\n[sources]',
            "lint.sort.source: Field required keys here: level, says",
        ),
        ("[triton]", 'offline = "cuda"\n[triton]', 'offline = "cuda" needs toolchain and triton.arch'),
        ("[triton]", 'family = "toasters"\n[triton]', "no file families/toasters.toml families: "),
        ("[triton]", 'family = "../cpu"\n[triton]', "'../cpu' is no name"),
        ('name = "cpu"', 'name = "gpu"', "gpu.toml"),
        ('name = "cpu"', "name = ", "cpu.toml"),
        ("[triton]", "[triton", "cpu.toml"),
    ],
)
def test_a_broken_file_names_file_and_key(tmp_path: Path, old: str, new: str, word: str) -> None:
    assert word in refused("cpu", folder(tmp_path, cpu=CPU.replace(old, new)))


def test_packages_of_a_toolchain_are_pinned(tmp_path: Path) -> None:
    def chain(packages: str) -> str:
        rest = f'[toolchain]\ndistribution = "triton"\npackages = {packages}\n\n[sources]\ntoolchain = "s"'
        return refused("cpu", folder(tmp_path, cpu=CPU.replace("[sources]", rest)))

    assert "'pybind11' is not pinned" in chain('["triton==3.9.0", "pybind11"]')
    assert "packages lack triton==VERSION" in chain('["pybind11==3.1.0"]')


def test_a_peak_has_a_source_or_is_measured(tmp_path: Path) -> None:
    text = CPU.replace('memory_gb_per_s = "measure"', "memory_gb_per_s = 90")
    target = targets.load("cpu", folder(tmp_path, cpu=text.replace("[sources]", '[sources]\npeaks = "data sheet"')))
    assert (target.peaks.memory_gb_per_s, target.sources["peaks.memory_gb_per_s"]) == (90, "data sheet")
    assert target.peaks.float32_tflop_per_s == "measure"
    assert "peaks.float32_tflop_per_s" not in target.sources


# ---------------------------------------------------------------- families

FAMILY = """
    torch_device = "cpu"
    cache_flush_bytes = 4_096
    [triton]
    distribution = "triton"
    at_least = "3.6"
    below = "3.10"
    backend = "cpu"
    warp_size = 1
    [limits]
    grid_programs = 7
    tile_elements = 8
    [sources]
    torch_device = "ours"
    cache_flush_bytes = "ours"
    triton = "ours"
    limits = "the family's page"
"""
DEVICE = """
    name = "one"
    family = "many"
    summary = "one of many"
    [limits]
    grid_programs = 9
    [sources]
    limits = "the device's page"
"""


def test_a_device_wins_over_its_family_key_by_key_and_so_do_its_sources(tmp_path: Path) -> None:
    target = targets.load("one", folder(tmp_path, one=DEVICE, families_many=FAMILY))
    assert (target.limits.grid_programs, target.limits.tile_elements) == (9, 8)
    assert target.sources["limits.grid_programs"] == "the device's page"
    assert target.sources["limits.tile_elements"] == "the family's page"
    assert target.family == "many"


def test_a_source_of_the_family_does_not_answer_for_what_a_device_says(tmp_path: Path) -> None:
    bare = DEVICE.replace("[sources]", "").replace('limits = "the device\'s page"', "")
    assert "one.toml: limits.grid_programs: no source" in refused(
        "one", folder(tmp_path, one=bare, families_many=FAMILY)
    )


def test_what_is_wrong_in_a_family_is_told_of_the_family(tmp_path: Path) -> None:
    broken = FAMILY.replace("[limits]", "[limits]\n    warp_speed = 1")
    assert "families/many.toml: limits.warp_speed" in refused("one", folder(tmp_path, one=DEVICE, families_many=broken))


def test_families_of_families_may_not_go_round_in_a_circle(tmp_path: Path) -> None:
    upper = 'family = "{}"\n    torch_device = "cpu"\n    [sources]\n    torch_device = "ours"\n'
    place = folder(tmp_path, one=DEVICE, families_many=upper.format("more"), families_more=FAMILY)
    assert targets.load("one", place).family == "more"
    place = folder(tmp_path, families_more=upper.format("many"))
    assert "one.toml -> many.toml -> more.toml -> many.toml" in refused("one", place)


# ---------------------------------------------------------------- prompts and pages


def test_notes_and_missing_dtypes_reach_the_prompt(tmp_path: Path) -> None:
    text = CPU.replace("useless_knobs", 'notes = "Beware of the leopard."\nuseless_knobs', 1)
    text = text.replace("[limits]", '[limits]\nmissing_dtypes = ["float64"]')
    text = text.replace("[sources]", '[sources]\nlimits = "a page"')
    facts = targets.facts(targets.load("cpu", folder(tmp_path, cpu=text)))
    assert "Beware of the leopard." in facts.notes
    assert facts.limits["missing_dtypes"] == "float64"


def test_pages_fit_a_narrow_terminal_and_show_every_fact_with_its_source() -> None:
    found = [(targets.load(name), "offline") for name in targets.available()]
    lines = list(table(found))
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.startswith("  nvidia-h200 ") for line in lines) == 1
    for target, state in found:
        text = list(page(target, state))
        assert max(map(len, text)) <= WIDTH
        whole = " ".join(" ".join(text).split())
        for source in {*target.sources.values(), *(rule.source for rule in target.lint.values())}:
            assert " ".join(source.split()) in whole
    shown = "\n".join(page(targets.load("nvidia-h200"), "ready"))
    assert "  shared_memory_bytes: 232,448 [" in shown
