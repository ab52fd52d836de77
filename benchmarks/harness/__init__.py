"""How to measure: settings, timing in turn, counts of operations, memory, processes, tables."""
