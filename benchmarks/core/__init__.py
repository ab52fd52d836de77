"""Benchmarks of `proser_core`: none imports Ray or MLflow."""
