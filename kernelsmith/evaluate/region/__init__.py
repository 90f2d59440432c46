"""Where exactly is a candidate wrong?"""
