"""The figures of the paper: plain arrays to a matplotlib Figure, and the stage that draws them."""
