"""Launches of checked builds: what they know about memory, and what they report."""
