"""Devices: what a launcher and a recorder do differently on each, one small module per kind.

A target's file names the module, whose `open_device()` gives an object with the methods of `Device` in
sandbox/replay/replay.py. It runs in confined processes only; the zygote imports the module and must find that importing
it touches no device.

How tensors reach a device. Inputs and outputs always cross in host memory (sandbox/wire/memory.py), on every device;
the launcher copies them to the device before the clock starts and back after it has stopped, so a copy is never timed
and no memory of the device is shared between processes. What was decided against, and why: CUDA's legacy IPC handles do
not cross pid namespaces (openucx/ucx issue 11513), and every candidate has its own; memory that is exported as a file
descriptor (`cuMemExportToShareableHandle`) would, but is CUDA's alone, and a judge that maps what a candidate writes
would need a context of its own on a device that candidates can hang. Truth and comparison stay on the host for the same
reason. The price is one copy each way, 32 GB/s per direction over PCIe 4.0 x16 (PCI-SIG's rate, 16 GT/s a lane): 2 ms
for 64 MB, beside 4 ms that the copy into the arena takes.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelsmith.devices.cpu import CpuDevice
    from kernelsmith.devices.generic import TorchDevice

DEFAULT = "kernelsmith.devices.cpu"
MODULE_VARIABLE = "KERNELSMITH_DEVICE_MODULE"
"""Environment variable by which a zygote's children know the module of their device."""
TORCH_VARIABLE = "KERNELSMITH_TORCH_DEVICE"
PLUGIN_VARIABLE = "KERNELSMITH_TORCH_PLUGIN"
"""torch's type of the device, and the module that registers it where torch itself does not."""
TARGET_VARIABLE = "KERNELSMITH_TRITON_TARGET"
"""What Triton compiles for, `backend:arch:warp size`; where it is missing, the driver is asked."""
BYTES_VARIABLE = "KERNELSMITH_DEVICE_BYTES"
"""How much of the device's memory a child may allocate; no limit where it is missing."""


class DeviceFaultError(Exception):
    """The device gave up on what a kernel did, such as an access to memory that is nobody's: the kernel's doing. This
    process can do nothing more with it."""


def open_device() -> CpuDevice | TorchDevice:
    """The device of this process, where Triton allocates from now on."""
    import triton

    module = importlib.import_module(os.environ.get(MODULE_VARIABLE, DEFAULT))
    device: CpuDevice | TorchDevice = module.open_device()
    if hasattr(triton, "set_allocator"):  # since 3.3
        triton.set_allocator(device.allocate)
    given = os.environ.get(BYTES_VARIABLE)
    if given is not None:
        device.limit_memory(int(given))
    return device
