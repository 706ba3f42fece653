"""Images as filesystems of fsspec: ``ubifs://`` and ``jffs2://``, read-only."""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn, Optional

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped,unused-ignore]

from ._error import Error
from ._image import FileInfo, Image

READ_ONLY = "images are read-only here; `floatgate.Image.edit` and `floatgate image put` change them"


_Version = Optional[tuple[int, ...]]


def _version(path: str) -> _Version:
    """Numbers that change with the contents of a file; ``None`` where there is none."""
    try:
        now = os.stat(path)
    except OSError:
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


class ImageFileSystem(AbstractFileSystem):  # type: ignore[misc,unused-ignore]
    """The files of an image or a dump. A file that was changed meanwhile, by `floatgate.Image.edit` or another program, is read again.

    Parameters
    ----------
    image : str
        Path of the file with the image.
    volume : str, optional
        The UBI volume, by name or number.
    offset : int, optional
        Byte at which the image begins in the file.
    peb_size, page_size, oob_size, block_pages : int, optional
        Sizes of the flash, as of `floatgate.Image`.

    Examples
    --------
    >>> fsspec.open("ubifs:///etc/passwd", image="dump.ubi")  # doctest: +SKIP
    """

    root_marker = "/"

    def __init__(
        self,
        image: str,
        volume: Optional[str] = None,
        offset: Optional[int] = None,
        peb_size: Optional[int] = None,
        page_size: Optional[int] = None,
        oob_size: Optional[int] = None,
        block_pages: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        sizes = {"peb_size": peb_size, "page_size": page_size, "oob_size": oob_size, "block_pages": block_pages}
        self._path = image
        self._which: dict[str, Any] = {"volume": volume, "offset": offset, **sizes}
        self._opened: Optional[tuple[_Version, Image]] = None
        # What is wrong with an image is said at once.
        _ = self._image

    @property
    def _image(self) -> Image:
        """The image as it is in the file now."""
        version = _version(self._path)
        if self._opened is None or self._opened[0] != version:
            self._opened = (version, Image(self._path, **self._which))
        return self._opened[1]

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """Read the image again, also where its file seems to be the same."""
        self._opened = None
        super().invalidate_cache(path)

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
        """What `ls` says of a path: of a symbolic link that it is one, and in ``destination`` where it leads."""
        path = self._strip_protocol(path)
        parent, _, name = path.rpartition("/")
        found = self._found(path) if name in ("", ".", "..") else f"{self._found(parent).rstrip('/')}/{name}"
        try:
            return self._entry(self._image.stat(found), path)
        except Error as error:
            raise FileNotFoundError(2, error.message, path) from error

    def exists(self, path: str, **kwargs: Any) -> bool:
        """True of what is there; of a symbolic link, when what it leads to is."""
        return self._followed(path) is not None

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """True of what is there, a symbolic link that leads nowhere too."""
        return bool(super().exists(path, **kwargs))

    def get(self, rpath: Any, lpath: Any, recursive: bool = False, *, on_error: Optional[str] = None, **kwargs: Any) -> None:
        """Copy files to the host. Symbolic links are followed.

        Of those that lead nowhere, ``on_error`` says whether they are left out (``"omit"``, the default of a directory), or a
        ``FileNotFoundError`` (``"raise"``, that of a single file).
        """
        super().get(rpath, lpath, recursive, on_error=on_error or ("omit" if recursive else "raise"), **kwargs)

    def get_file(self, rpath: str, lpath: Any, *args: Any, on_error: str = "raise", **kwargs: Any) -> None:
        if on_error == "raise" or self.exists(rpath):
            super().get_file(rpath, lpath, *args, **kwargs)

    def isdir(self, path: str) -> bool:
        """True of a directory, and of a symbolic link to one."""
        return self._followed(path) == "directory"

    def isfile(self, path: str) -> bool:
        """True of a regular file, and of a symbolic link to one."""
        return self._followed(path) == "file"

    def _followed(self, path: str) -> Optional[str]:
        """Type of what a path leads to; ``None`` where that is not there."""
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

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(READ_ONLY)

    mkdir = makedirs = rmdir = _rm = cp_file = _refuse

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, cache_options: Any = None, **kwargs: Any
    ) -> ImageFile:
        if mode != "rb":
            self._refuse()
        image = self._image
        found = self._found(path)
        if image.stat(found).type == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return ImageFile(self, found, mode, block_size or "default", image=image, cache_options=cache_options, **kwargs)


class UbifsFileSystem(ImageFileSystem):
    """``ubifs://``, which has a class of its own as some programs take one filesystem for each class."""

    protocol = "ubifs"


class Jffs2FileSystem(ImageFileSystem):
    """``jffs2://``."""

    protocol = "jffs2"


class ImageFile(AbstractBufferedFile):  # type: ignore[misc,unused-ignore]
    """A file of an image; ranges are read when they are needed, from the image as it was when the file was opened."""

    def __init__(self, fs: ImageFileSystem, path: str, *args: Any, image: Image, **kwargs: Any) -> None:
        self._image = image
        super().__init__(fs, path, *args, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._image._native.read(self.details["inode"], start, end - start)  # type: ignore[no-any-return,unused-ignore]
