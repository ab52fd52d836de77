"""Where artefacts are stored: a folder, or an object store behind a URI with a mirror on each machine."""
