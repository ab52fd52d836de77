"""Class splits: which classes are known, and the published lists."""
