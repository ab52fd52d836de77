"""Everything that speaks to MLflow: runs, the model registry, and the model's loading code."""
