"""What a judge keeps between jobs, and how many jobs may be in it at once."""
