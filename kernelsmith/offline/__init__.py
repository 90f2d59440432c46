"""Kernels compiled for devices that are not here, and how they fit."""
