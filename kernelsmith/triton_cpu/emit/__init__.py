"""From typed operations to one C++ translation unit; starts no program and reads no machine."""
