"""How fast is it, and how fast are the others?"""
