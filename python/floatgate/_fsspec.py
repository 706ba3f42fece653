"""Images as filesystems of fsspec: ``ubifs://`` and ``jffs2://``. The image may be at any URL that fsspec reads."""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
import weakref
from typing import Any, Optional

from fsspec.core import url_to_fs  # type: ignore[import-untyped,unused-ignore]
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped,unused-ignore]

from ._error import ArgumentError, Error
from ._image import Edit, FileInfo, Image

READ_ONLY = "images are read-only here; `writable=True`, `floatgate.Image.edit` and `floatgate image put` change them"

#: Permissions of new files and directories.
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755


_Version = Optional[tuple[int, ...]]


def _version(path: str) -> _Version:
    """Numbers that change with the contents of a file; ``None`` if the file does not exist."""
    try:
        now = os.stat(path)
    except OSError:
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


class ImageFileSystem(AbstractFileSystem):  # type: ignore[misc,unused-ignore]
    """The files of an image or a dump. If `floatgate.Image.edit` or another program changes the image file, it is read again.

    Parameters
    ----------
    image : str
        Path or URL of the file with the image: ``"dump.ubi"``, ``"s3://bucket/dump.ubi"``, ``"zip://dump.ubi::https://..."``. What is not
        on this machine is copied to a temporary file, and read again after `invalidate_cache`.
    volume : str, optional
        The UBI volume, by name or number.
    offset : int, optional
        Offset of the image in the file, bytes.
    peb_size, page_size, oob_size, block_pages : int, optional
        Sizes of the flash, as for `floatgate.Image`.
    writable : bool
        True to allow writes. Each change is an edit of the whole image; an image at a URL is written back after it.
    recover, grow : bool
        As for `floatgate.Image.edit`.
    image_options : dict, optional
        Options of the filesystem of the image.

    Examples
    --------
    >>> fsspec.open("ubifs:///etc/passwd", image="dump.ubi")  # doctest: +SKIP
    >>> fsspec.open("ubifs:///etc/passwd::s3://bucket/dump.ubi")  # doctest: +SKIP
    """

    root_marker = "/"

    def __init__(
        self,
        image: Optional[str] = None,
        volume: Optional[str] = None,
        offset: Optional[int] = None,
        peb_size: Optional[int] = None,
        page_size: Optional[int] = None,
        oob_size: Optional[int] = None,
        block_pages: Optional[int] = None,
        writable: bool = False,
        recover: bool = False,
        grow: bool = False,
        image_options: Optional[dict[str, Any]] = None,
        # Options that fsspec passes for a chain of URLs.
        fo: Optional[str] = None,
        target_protocol: Optional[str] = None,
        target_options: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (image is None) == (fo is None):
            raise ArgumentError("there is no image" if image is None else "there are two images", "give `image`, or a URL behind ::")
        sizes = {"peb_size": peb_size, "page_size": page_size, "oob_size": oob_size, "block_pages": block_pages}
        self._which: dict[str, Any] = {"volume": volume, "offset": offset, **sizes}
        self._opened: Optional[tuple[_Version, Image]] = None
        self._writable, self._edit_options = writable, {"recover": recover, "grow": grow}
        #: Filesystem and path of an image that is not a local file.
        self._remote: Optional[tuple[Any, str]] = None
        place = str(image if fo is None else fo)
        if fo is not None and target_protocol is not None and "://" not in place:
            place = f"{target_protocol}://{place}"
        if "://" in place or "::" in place:
            files, path = url_to_fs(place, **(image_options or target_options or {}))
            if "file" in ([files.protocol] if isinstance(files.protocol, str) else files.protocol):
                place = path
            else:
                self._remote, place = (files, path), self._temporary()
                self._fetch(place)
        self._path = place
        # A wrong image is reported at once.
        _ = self._image

    def _temporary(self) -> str:
        """Path of the copy of an image, which is deleted with this filesystem."""
        folder = tempfile.mkdtemp(prefix="floatgate-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        return os.path.join(folder, "image")

    def _fetch(self, path: Optional[str] = None) -> None:
        if self._remote is not None:
            files, remote = self._remote
            files.get_file(remote, self._path if path is None else path)

    @property
    def _image(self) -> Image:
        """Current image in the file."""
        version = _version(self._path)
        if self._opened is None or self._opened[0] != version:
            self._opened = (version, Image(self._path, **self._which))
        return self._opened[1]

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """Read the image again, even if its file seems unchanged."""
        self._opened = None
        self._fetch()
        super().invalidate_cache(path)

    def _edit(self) -> _Edit:
        """Changes of the image, for a ``with`` block."""
        if not self._writable:
            raise NotImplementedError(READ_ONLY)
        return _Edit(self)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        path = super()._strip_protocol(path)
        if isinstance(path, list):
            return path
        return "/" + path.lstrip("/")

    def _found(self, path: str) -> str:
        """The path without symbolic links in it."""
        try:
            return self._image.resolve(path)
        except Error as error:
            raise FileNotFoundError(2, error.message, path) from error

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Return the entry of a path as in `ls`. A symbolic link is not followed; ``destination`` is its target."""
        path = self._strip_protocol(path)
        parent, _, name = path.rpartition("/")
        found = self._found(path) if name in ("", ".", "..") else f"{self._found(parent).rstrip('/')}/{name}"
        try:
            return self._entry(self._image.stat(found), path)
        except Error as error:
            raise FileNotFoundError(2, error.message, path) from error

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Return True if a path exists; for a symbolic link, if its target exists."""
        return self._followed(path) is not None

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Return True if a path exists, even if it is a dangling symbolic link."""
        return bool(super().exists(path, **kwargs))

    def get(self, rpath: Any, lpath: Any, recursive: bool = False, *, on_error: Optional[str] = None, **kwargs: Any) -> None:
        """Copy files to the host. Symbolic links are followed.

        A dangling link is left out with ``on_error="omit"``, the default for a directory. With ``"raise"``, the default
        for a single file, it raises a ``FileNotFoundError``.
        """
        super().get(rpath, lpath, recursive, on_error=on_error or ("omit" if recursive else "raise"), **kwargs)

    def get_file(self, rpath: str, lpath: Any, *args: Any, on_error: str = "raise", **kwargs: Any) -> None:
        if on_error == "raise" or self.exists(rpath):
            super().get_file(rpath, lpath, *args, **kwargs)

    def isdir(self, path: str) -> bool:
        """Return True for a directory, and for a symbolic link to a directory."""
        return self._followed(path) == "directory"

    def isfile(self, path: str) -> bool:
        """Return True for a regular file, and for a symbolic link to a regular file."""
        return self._followed(path) == "file"

    def _followed(self, path: str) -> Optional[str]:
        """Type of the target of a path; ``None`` if it does not exist."""
        try:
            return self._image.stat(self._found(self._strip_protocol(path))).type
        except OSError:
            return None

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        found = self._found(path)
        if self._image.stat(found).type != "directory":
            entries = [self.info(path)]
        else:
            base = path.rstrip("/")
            entries = [self._entry(file, f"{base}/{file.name}") for file in self._image.ls(found)]
        return entries if detail else [entry["name"] for entry in entries]

    @staticmethod
    def _entry(file: FileInfo, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": name,
            "size": file.size,
            "type": {"symlink": "link"}.get(file.type, file.type),
            "inode": file.inode,
            "mode": file.permissions,
            "uid": file.uid,
            "gid": file.gid,
            "mtime": float(file.mtime),
        }
        return entry if file.target is None else {**entry, "destination": file.target}

    def modified(self, path: str) -> Any:
        """Time of the last change, in UTC."""
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], datetime.timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Make a directory."""
        path = self._strip_protocol(path)
        with self._edit() as edit:
            if self.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            edit.mkdir(path, parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its missing parents."""
        path = self._strip_protocol(path)
        with self._edit() as edit:
            if not exist_ok and self.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            edit.mkdir(path, parents=True)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        path = self._strip_protocol(path)
        with self._edit() as edit:
            if self.ls(path, detail=False):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
            edit.remove(path, recursive=True)

    def _rm(self, path: str) -> None:
        with self._edit() as edit:
            edit.remove(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Remove files, all in one edit; with `recursive`, also directories with all their contents."""
        with self._edit() as edit:
            for one in [path] if isinstance(path, str) else path:
                edit.remove(self._strip_protocol(one), recursive=recursive)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        """Rename a file or a directory."""
        with self._edit() as edit:
            edit.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copy a file in the image."""
        with self._edit():
            pass
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
        else:
            self.pipe_file(path2, self.cat_file(path1))

    def _commit(self, path: str, source: str) -> None:
        """Put a file of this machine at a path. Mode and owner of an existing file are kept."""
        path = self._strip_protocol(path)
        found = self._image.stat(self._found(path)) if self._followed(path) == "file" else None
        with self._edit() as edit:
            target = path if found is None else f"/{found.path}"
            edit.put(source, target)
            edit.chmod(target, FILE_MODE if found is None else found.permissions)
            edit.chown(target, 0 if found is None else found.uid, 0 if found is None else found.gid)

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, cache_options: Any = None, **kwargs: Any
    ) -> Any:
        if mode != "rb":
            with self._edit():
                pass
            if mode == "xb" and self.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return WrittenFile(self, path, self.cat_file(path) if mode == "ab" and self.exists(path) else b"")
        image = self._image
        found = self._found(path)
        if image.stat(found).type == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return ImageFile(self, found, mode, block_size or "default", image=image, cache_options=cache_options, **kwargs)


class _Edit:
    """An edit of the image of a filesystem. The image is written back to its URL."""

    def __init__(self, files: ImageFileSystem) -> None:
        self._files = files
        options = files._edit_options
        self._edit = files._image.edit(recover=options["recover"], grow=options["grow"])

    def __enter__(self) -> Edit:
        return self._edit.__enter__()

    def __exit__(self, *raised: Any) -> None:
        # An edit without changes is dropped.
        self._edit.__exit__(*raised)
        self._files._opened = None
        if raised[0] is None and self._files._remote is not None and self._edit.result is not None:
            files, path = self._files._remote
            files.put_file(self._files._path, path)


class WrittenFile(io.FileIO):
    """A new file of an image. Its data is in a temporary file until it is closed."""

    def __init__(self, files: ImageFileSystem, path: str, before: bytes) -> None:
        number, self._source = tempfile.mkstemp(prefix="floatgate-")
        super().__init__(number, "r+b")
        self._files, self._image_path = files, path
        self.write(before)

    def close(self) -> None:
        """Put the file into the image."""
        if self.closed:
            return
        super().close()
        try:
            self._files._commit(self._image_path, self._source)
        finally:
            os.unlink(self._source)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # A file whose writing was interrupted is not added.
        if kind is not None and not self.closed:
            super().close()
            os.unlink(self._source)
        self.close()


class UbifsFileSystem(ImageFileSystem):
    """Filesystem of ``ubifs://``. It has its own class, because some programs accept only one filesystem per class."""

    protocol = "ubifs"


class Jffs2FileSystem(ImageFileSystem):
    """Filesystem of ``jffs2://``, with its own class like ``ubifs://``."""

    protocol = "jffs2"


class ImageFile(AbstractBufferedFile):  # type: ignore[misc,unused-ignore]
    """A file of an image. Ranges are read on demand, from the image as it was when the file was opened."""

    def __init__(self, fs: ImageFileSystem, path: str, *args: Any, image: Image, **kwargs: Any) -> None:
        self._image = image
        super().__init__(fs, path, *args, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._image._native.read(self.details["inode"], start, end - start)  # type: ignore[no-any-return,unused-ignore]
