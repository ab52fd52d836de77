"""The commands of `proser`, one file each."""
