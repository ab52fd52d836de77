"""Networks of methods that generate or reconstruct images.

Nothing is imported here, so that each module has a code version of its own.
"""
