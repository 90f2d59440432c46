"""How a process gives up its powers, and what it still sees."""
