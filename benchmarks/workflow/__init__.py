"""Benchmarks of `pipelines`: commands, sweeps, streaming and serving, with the parts that only they use."""
