"""Writes the winner of a run as a package that installs anywhere and never imports kernelsmith.

Called by the command line with what the store knows. No torch is needed to write a package; the package itself needs
torch, and Triton with a driver for the device, without which it runs the reference.
"""

from __future__ import annotations

from kernelsmith.export.package import ExportInput, export

__all__ = ["ExportInput", "export"]
