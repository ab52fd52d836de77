"""One run or sweep: the DAG of its stages, the session it runs in, and its plan."""
