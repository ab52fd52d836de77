"""A storage behind a URI: what lies there, its mirrors on the machines of a run, and its lock."""
