"""Is a candidate right?"""
