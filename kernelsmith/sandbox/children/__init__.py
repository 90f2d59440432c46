"""The zygote and its forks: starting, watching, pausing and ending them."""
