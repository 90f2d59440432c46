"""Modules that are copied into every exported package as they are; they import torch and triton, never kernelsmith."""
