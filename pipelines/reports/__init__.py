"""Results as figures, tables and Parquet, made of finished work alone."""
