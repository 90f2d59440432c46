"""Our side: kernels are built from a plan's text, and the plan is replayed, timed and examined."""
