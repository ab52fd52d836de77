"""Readers of data sets and image files, one file per layout."""
