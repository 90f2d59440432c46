"""The CPU backend's reach: one table per module, each from one command (`python -m benchmarks.triton_cpu <table>`)."""
