"""From C++ to a shared library, and from that to launches on a pool of threads."""
