"""What crosses the border: frames, typed messages, shared memory; no policy and no processes."""
