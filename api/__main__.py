"""The command ``warpconv``, which is ``python -m warpconv``, too."""

import sys


def main() -> None:
    try:
        from warpconv.cli import main as command
    except KeyboardInterrupt:       # before the command itself can say so
        print("warpconv: interrupted", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
