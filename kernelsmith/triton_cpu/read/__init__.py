"""From TTIR's text to typed operations; knows nothing of C++."""
