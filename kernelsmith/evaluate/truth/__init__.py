"""What is right: inputs, references in float64, and how far an honest answer may be from them."""
