"""Ray: joining or starting a cluster, and training on it."""
