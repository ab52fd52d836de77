"""Files below a URI, on whatever pyarrow.fs knows: s3://, gs://, abfs://, hdfs:// or file://.

A file appears when it is complete. Requests that fail on the network are repeated for RETRY_FOR_S seconds.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from pyarrow import fs

from proser_core.errors import SECRET_FIELD, ConfigError, StorageError, first_line

RETRY_FOR_S, RETRY_EVERY_S = 60.0, 2.0
WITH_FOLDERS = ("local", "hdfs")
"""File systems, by pyarrow's names, that write files bit by bit, into a folder that must exist, and can move them."""
DEFAULTS = {"s3": "allow_delayed_open=true", "gs": "retry_limit_seconds=60", "gcs": "retry_limit_seconds=60"}
"""Parts of a URI's query: a small object in one request instead of three; an answer within a minute instead of 15."""
Result = TypeVar("Result")
Stamp = tuple[int, int]
"""Bytes of a file and its time of change in ns: one that was written again has another."""


@dataclass(frozen=True)
class Objects:
    """Files by name, such as `trials/<key>/epochs.jsonl`, below `root` of a file system."""

    uri: str
    files: Any
    root: str
    retry_for_s: float = RETRY_FOR_S

    @classmethod
    def from_uri(cls, uri: str) -> "Objects":
        """Files at a URI; pyarrow finds credentials, region and endpoint in the environment and in the URI's query.
        Raises what pyarrow does: OSError or ValueError."""
        parts, own = urlsplit(uri), DEFAULTS.get(urlsplit(uri).scheme, "")
        query = parts.query if own.partition("=")[0] in parts.query else "&".join(filter(None, (parts.query, own)))
        files, root = fs.FileSystem.from_uri(urlunsplit(parts._replace(query=query)))
        return cls(uri, files, root.rstrip("/"))

    def read(self, name: str) -> bytes | None:
        """Content of a file; None where there is none."""

        def read() -> bytes:
            with self.files.open_input_stream(self._path(name)) as stream:
                return bytes(stream.read())

        try:
            return self._retry(read)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file."""

        def write(path: str) -> None:
            with self.files.open_output_stream(path) as stream:
                stream.write(content)

        self._retry(lambda: self._put(name, write))

    def upload(self, source: Path, name: str) -> None:
        """Replace a file with one of this machine."""
        self._retry(lambda: self._put(name, lambda path: _copy(fs.LocalFileSystem(), source, self.files, path)))

    def download(self, name: str, target: Path) -> None:
        """Write a file to this machine; not atomically. Raises FileNotFoundError where there is none."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self._retry(lambda: _copy(self.files, self._path(name), fs.LocalFileSystem(), target))

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with suppress(FileNotFoundError):
            self._retry(lambda: self.files.delete_file(self._path(name)))

    def stamp(self, name: str) -> Stamp | None:
        """Size and time of change of a file; None where there is none."""
        info = self._retry(lambda: self.files.get_file_info(self._path(name)))
        return (info.size, info.mtime_ns or 0) if info.type == fs.FileType.File else None

    def listing(self, folder: str) -> dict[str, Stamp]:
        """Names of all files in and below a folder, with their stamps."""
        selector = fs.FileSelector(self._path(folder), recursive=True, allow_not_found=True)
        infos = self._retry(lambda: self.files.get_file_info(selector))
        start = len(self._path(""))
        return {info.path[start:]: (info.size, info.mtime_ns or 0) for info in infos if info.type == fs.FileType.File}

    def server_time_ns(self) -> int:
        """The storage's own time in ns, from a file that is written, read and deleted."""
        name = f".probe-{uuid.uuid4().hex}"
        self.write(name, name.encode())
        stamp, content = self.stamp(name), self.read(name)
        self.delete(name)
        if stamp is None or content != name.encode():
            raise OSError("a file that was just written could not be read")
        return stamp[1]

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _put(self, name: str, write: Callable[[str], None]) -> None:
        """An object appears when it is complete; a file is written under another name and moved."""
        target = self._path(name)
        if self.files.type_name not in WITH_FOLDERS:
            write(target)
            return
        folder, _, last = target.rpartition("/")
        temporary = f"{folder}/.{last}.{uuid.uuid4().hex}"
        self.files.create_dir(folder)
        try:
            write(temporary)
            self.files.move(temporary, target)
        except BaseException:
            with suppress(OSError):
                self.files.delete_file(temporary)
            raise

    def _retry(self, action: Callable[[], Result]) -> Result:
        """Errors with a number are those of a disk, which another attempt would meet too."""
        end = time.monotonic() + self.retry_for_s
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno is not None or isinstance(error, FileNotFoundError) or time.monotonic() > end:
                    raise
                time.sleep(RETRY_EVERY_S)


def _copy(source_files: Any, source: Path | str, target_files: Any, target: Path | str) -> None:
    # as Ray's own copies do it: https://github.com/apache/arrow/issues/32372
    fs.copy_files(
        str(source), str(target), source_filesystem=source_files, destination_filesystem=target_files, use_threads=False
    )


@contextmanager
def storage_errors(objects: Objects) -> Iterator[None]:
    """Turn errors of the network, which have no number, into a StorageError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise StorageError(
            f"the storage {objects.uri} does not answer ({first_line(error)}); its content is safe, and the same "
            "command continues once it answers"
        ) from error


def open_objects(uri: str) -> Objects:
    """Files at a URI, after one was written, read and deleted there. Raises ConfigError for a malformed URI, a missing
    bucket, or credentials that do not suffice."""
    try:
        if urlsplit(uri).password or SECRET_FIELD.search(uri):
            raise ConfigError(
                "--storage got a URI with a password, key or token in it, which would be stored with the results; omit "
                "it, and give credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a "
                "profile or role)"
            )
        objects = Objects.from_uri(uri)
        replace(objects, retry_for_s=0.0).server_time_ns()
    except (OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"the storage {uri} cannot be written and read ({first_line(error)}); check the URI, that the bucket or "
            "folder exists, and the credentials in the environment"
        ) from error
    return objects
