"""What is timed, and what it is timed against: our step, the released form, a DataLoader, groups of processes."""
