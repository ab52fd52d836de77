"""A model behind HTTP: a Ray Serve application with batches, a health check, and a reload when the alias moves."""
