"""Is a candidate right every time, and whoever else calls it meanwhile?"""
