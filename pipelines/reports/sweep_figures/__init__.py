"""Figures of a finished sweep: one file for each kind, drawn from a `SweepTable`."""
