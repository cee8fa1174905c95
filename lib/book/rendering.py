"""Jupyter Book's command as a module, for a process that may be a fork: ``lib.book.forks``."""

from __future__ import annotations

import sys

from jupyter_book.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
