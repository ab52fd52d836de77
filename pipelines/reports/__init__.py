"""Figures, tables, pages and Parquet, of finished work or of a user's images."""
