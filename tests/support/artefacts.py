"""A finished folder, as a store holds it."""

from pathlib import Path

from proser_core.store.store import write_manifest


def artefact(folder: Path, **files: str) -> Path:
    """A finished folder with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    write_manifest(folder, {"made": "of nothing"})
    return folder
