"""The exception of this package."""

from __future__ import annotations

import errno


class Error(Exception):
    """A setup, an image or an argument is wrong, or an operation of the flash failed.

    Attributes
    ----------
    message : str
        What is wrong, in one sentence.
    help : str or None
        What to do about it, as the command prints it after ``help:``.
    """

    message: str
    help: str | None

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message, help)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return self.message if self.help is None else f"{self.message}\nhelp: {self.help}"


class MissingFile(Error, FileNotFoundError):
    """A setup, an image or another file that an argument names is not there."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message, help)
        self.errno, self.strerror = errno.ENOENT, message
