"""The figures of the paper, one file each: plain arrays to a matplotlib Figure."""
