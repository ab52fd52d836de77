"""Networks of a method's own: each is trained by a job of its own, and may need others that were trained before.

Nothing is imported here: the key of a training holds the code of its own module and of what that one imports.
"""
