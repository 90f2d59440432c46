"""The roles that a child of the zygote plays, by name: a judge names them without importing what they import."""

from __future__ import annotations

CANDIDATE = "kernelsmith.sandbox.record.recorder"
LAUNCHER = "kernelsmith.sandbox.replay.launcher"
BUILDER = "kernelsmith.sandbox.replay.builder"
COMPILER = "kernelsmith.offline.compiler"
PROBE = "kernelsmith.sandbox.replay.probe"
PRELOAD = ("torch", "triton", CANDIDATE, LAUNCHER, BUILDER, "kernelsmith.devices.cpu")
"""What a zygote imports, so that no child has to."""
WARM = "kernelsmith.sandbox.warm.compile_something"
WARM_ASCEND = "kernelsmith.sandbox.ascend.warm_up"
"""Of a zygote that imports triton-ascend instead of Triton."""
RECORDING = ("torch", "triton", CANDIDATE, "kernelsmith.devices.cpu")
"""What a zygote imports that has candidates only."""
BUILT = "KERNELSMITH_BUILT"
"""Variable of a new zygote: files of the compiled runtime, read before it is confined, so that it compiles none."""
MODULE_NAME = "candidate"
"""What the module of a candidate is called, and its file in the scratch folder."""
