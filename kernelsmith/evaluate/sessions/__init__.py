"""Questions to confined children, with every way to fail named."""
