"""Figures of a finished run or sweep, drawn from a `SweepTable`: readable in grey and for colour-blind eyes."""
