"""Opening a storage, a folder or a URI, for one command alone."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.storage.lease import hold_lease
from pipelines.storage.mirror import MIRROR_VARIABLE, STORE, Mirror, mirror_folder
from pipelines.storage.objects import open_objects
from pipelines.storage.storage import Storage, name_in
from proser_core.store.lock import absent_folders, exclusive_storage


@contextmanager
def open_storage(storage: Path | str, work: str, say: Callable[[str], None]) -> Iterator[Storage]:
    """Open a folder, or the storage behind a URI, and lock it: one command at a time works there.

    `work` names the command to whoever comes second; `say` prints a line to the user. Raises ConfigError for a storage
    that cannot be used, or in which another command works.
    """
    if isinstance(storage, Path):
        made = absent_folders(storage)
        store = Storage(storage, announce=say)
        with exclusive_storage(store.root, work, made):
            yield store
        return
    objects, folder = open_objects(storage), mirror_folder(storage)
    mirror = Mirror(folder / STORE, announce=say, option=MIRROR_VARIABLE, objects=objects)

    def taken_over(text: str) -> None:
        mirror.is_taken_over = True
        say(text)

    with exclusive_storage(mirror.root, work, uri=storage):
        owner = f"{name_in(folder / 'identity')}@{socket.gethostname()}"  # an image of a disk copies the mirror's name
        with hold_lease(objects, owner, work, taken_over):
            yield mirror
