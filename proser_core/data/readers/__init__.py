"""Readers of data sets and image files, one file a layout."""
