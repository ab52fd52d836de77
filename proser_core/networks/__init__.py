"""Backbones with a named split point, the closed-set net and the net with placeholders."""
