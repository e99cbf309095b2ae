"""``python -m warpconv`` is the command ``warpconv``."""

from warpconv.cli import main

main()
