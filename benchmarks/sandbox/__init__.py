"""What isolation costs and how fast verdicts are: every goal of the sandbox in one command."""
