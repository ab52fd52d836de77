"""The tables of the paper, made again: protocols as data, what was published, and the report that sets both side by
side."""
