"""The candidate's side: its Python runs, and what it asks of the device becomes a plan."""
