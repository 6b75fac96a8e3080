"""The command line of a benchmark that is told how much to measure, and nothing else."""

import argparse

#: Quantiles need two values.
LEAST = 2


def ask(about: str | None, name: str | None = None, *, default: int = LEAST) -> int:
    """The number called *name* on the command line, *default* without one.

    Without a *name* nothing can be given. Wrong usage, and `--help`, end the process.

    Args:
        about: What `--help` begins with.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if name is not None:
        text = f"{LEAST} at least (default: %(default)s)"
        parser.add_argument(
            "count", nargs="?", type=_whole, default=default, metavar=name, help=text
        )
    return int(vars(parser.parse_args()).get("count", default))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= LEAST):
        raise argparse.ArgumentTypeError(f"must be a whole number, {LEAST} or more, not {text!r}")
    return int(text)
