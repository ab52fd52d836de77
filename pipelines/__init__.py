"""The application around `proser_core`: workflow, cluster, storage, tracking, reports, inference, serving, reproduction
of the paper, and the command line."""
