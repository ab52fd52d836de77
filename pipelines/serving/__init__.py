"""A model behind HTTP, in one process or in replicas of Ray Serve: batches, health checks, a reload when the alias
moves."""
