"""Benchmarks: each compares variants that alternate in one run and prints ratios. Nothing is asserted on a time."""
