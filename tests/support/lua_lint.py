"""`python lua_lint.py DIRECTORY`: write every assembled script there and run luacheck on them.

The raw files would report each included function as undefined. luacheck is the one on PATH, or
Debian's, unpacked into the user's cache; without either the check is skipped, but fails in CI.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import crawl_actors.scripts
import dramatiq_streams.calls

# Run by its path, so that the packages are imported from where they are installed.
sys.path.append(str(Path(__file__).parents[2]))

from tests.support.debian import PackageMissing, unpack, unpacked

_PACKAGES = ("lua-check", "lua-argparse", "lua-filesystem", "lua5.1", "liblua5.1-0")
_CONFIGURATION = Path(__file__).parents[2] / ".luacheckrc"


def main(directory: Path) -> int:
    """The exit code: luacheck's own, or 0 when the check was skipped."""
    paths = write_scripts(directory)
    try:
        command, environment = find_luacheck()
    except PackageMissing as error:
        print(f"luacheck is not installed, and {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    result = subprocess.run(
        [*command, "--no-cache", "--codes", "--config", _CONFIGURATION, *paths],
        env={**os.environ, **environment},
        check=False,
    )
    return result.returncode


def write_scripts(directory: Path) -> list[Path]:
    """Each package's scripts, includes pasted in, as `DIRECTORY/PACKAGE/NAME.lua`."""
    crawl_names = [
        file.name.removesuffix(".lua")
        for file in resources.files("crawl_actors").joinpath("lua").iterdir()
        if file.is_file()
    ]
    texts = {
        "dramatiq_streams": dramatiq_streams.calls.assembled(),
        "crawl_actors": {name: crawl_actors.scripts.script_text(name) for name in crawl_names},
    }
    paths = []
    for package, scripts in texts.items():
        folder = directory / package
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in sorted(scripts.items()):
            path = folder / f"{name}.lua"
            path.write_text(text)
            paths.append(path)
    return paths


def find_luacheck() -> tuple[Sequence[str | Path], Mapping[str, str]]:
    """How to start luacheck, and what it needs in its environment."""
    if shutil.which("luacheck"):
        return ["luacheck"], {}
    root = unpacked("luacheck")
    if not (root / "usr" / "bin" / "luacheck").exists():
        unpack("luacheck", _PACKAGES)
    (libraries,) = root.glob("usr/lib/*-linux-*")
    share = root / "usr" / "share" / "lua" / "5.1"
    return [root / "usr" / "bin" / "lua5.1", root / "usr" / "bin" / "luacheck"], {
        "LUA_PATH": f"{share}/?.lua;{share}/?/init.lua",
        "LUA_CPATH": f"{libraries}/lua/5.1/?.so",
        "LD_LIBRARY_PATH": str(libraries),
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
