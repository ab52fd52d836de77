"""Finished work on disk, found again by its content: files, locks and keys."""
