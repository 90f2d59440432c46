"""Lowers the limits of the judge and a sibling, raises its own; neither may work."""

import resource

from kernelsmith.drill.tools import attempt, harmless


def act(stage):
    for pid in {stage.judge, stage.victim, stage.zygote, stage.sibling} - {0, 1}:
        harmless(lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)))
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        harmless(lambda kind=kind: resource.prlimit(stage.victim, kind, (8, 8)))
    kinds = (
        resource.RLIMIT_NPROC,
        resource.RLIMIT_NOFILE,
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_CORE,
        resource.RLIMIT_CPU,
    )
    for kind in kinds:
        attempt(stage, "a higher limit", lambda kind=kind: resource.setrlimit(kind, (1 << 40, 1 << 40)))


def twin(stage):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
