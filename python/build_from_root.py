"""Build backend of `pip install ./python`: maturin, in the folder above, whose pyproject.toml describes the package."""

import os

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from maturin import *  # noqa: E402, F403
