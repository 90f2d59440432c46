"""Figures by command, each a ratio against a named baseline of the same run; none is a test."""
