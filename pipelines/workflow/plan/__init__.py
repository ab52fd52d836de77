"""The plan of a run, a sweep or a reproduction: what is found, what is to be trained, and what that takes."""
