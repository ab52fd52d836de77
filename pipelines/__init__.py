"""The workflow: stages, the DAG over them, training workers, tracking, registry, command line."""
