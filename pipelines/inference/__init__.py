"""A model on a user's images, here or on Ray."""
