"""The many ways to write one URL in a link (pure).

Every way is read by a browser as the same URL, so a crawler has to request it once. Fragments,
user names and an empty query are read as the same page.
"""

from __future__ import annotations

import posixpath
import random
import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

Way = Callable[[str, str, random.Random], str]

_ESCAPE_OR_CHARACTER = re.compile(r"%[0-9A-Fa-f]{2}|.")


def spell(url: str, *, base: str, rng: random.Random) -> str:
    """Write the canonical *url* in some way, for a UTF-8 page whose base URL is *base*."""
    if _site(url) != _site(base):
        return url
    return rng.choice(WAYS)(url, base, rng)


def absolute(url: str, base: str, rng: random.Random) -> str:
    """As it is, in full."""
    return url


def rooted(url: str, base: str, rng: random.Random) -> str:
    """From the root of the site."""
    return url.removeprefix(_site(url))


def relative(url: str, base: str, rng: random.Random) -> str:
    """The way from *base* to *url*, with `../` where needed."""
    parts = urlsplit(url)
    if "//" in parts.path or "//" in urlsplit(base).path:
        return rooted(url, base, rng)
    here = posixpath.dirname(urlsplit(base).path)
    folder, name = posixpath.split(parts.path)
    # relpath is never empty ("." at least), so a colon in the name is not read as a scheme.
    way = f"{posixpath.relpath(folder, here)}/{name}"
    return f"{way}?{parts.query}" if parts.query else way


def without_scheme(url: str, base: str, rng: random.Random) -> str:
    """Host and path; the scheme is that of the page."""
    return url.removeprefix("http:")


def shouted(url: str, base: str, rng: random.Random) -> str:
    """Scheme and host in capitals."""
    return _site(url).upper() + rooted(url, base, rng)


def padded_port(url: str, base: str, rng: random.Random) -> str:
    """A port with leading zeros."""
    parts = urlsplit(url)
    return f"http://{parts.hostname}:00{parts.port}{rooted(url, base, rng)}"


def with_user(url: str, base: str, rng: random.Random) -> str:
    """With a user name and a password."""
    return url.replace("http://", "http://guest:secret@", 1)


def with_fragment(url: str, base: str, rng: random.Random) -> str:
    """With the name of a part of the page."""
    return f"{rooted(url, base, rng)}#part-{rng.randrange(9)}"


def with_empty_query(url: str, base: str, rng: random.Random) -> str:
    """With a question mark and nothing behind it."""
    return rooted(url, base, rng) + ("" if "?" in url else "?")


def with_dots(url: str, base: str, rng: random.Random) -> str:
    """Dot segments that lead nowhere, plain or escaped."""
    detour = rng.choice(["/.", "/detour/..", "/detour/%2E%2e", "/%2e", "/over/there/../.."])
    return detour + rooted(url, base, rng)


def escaped(url: str, base: str, rng: random.Random) -> str:
    """One unreserved character of the path written as an escape."""
    path, mark, query = rooted(url, base, rng).partition("?")
    tokens = _ESCAPE_OR_CHARACTER.findall(path)
    plain = [i for i, token in enumerate(tokens) if re.fullmatch(r"[A-Za-z0-9~_-]", token)]
    if plain:
        chosen = rng.choice(plain)
        tokens[chosen] = rng.choice(["%{:02x}", "%{:02X}"]).format(ord(tokens[chosen]))
    return "".join(tokens) + mark + query


def lower_case_escapes(url: str, base: str, rng: random.Random) -> str:
    """Escapes in lower case."""
    text = rooted(url, base, rng)
    return re.sub(r"%[0-9A-F]{2}", lambda escape: escape.group().lower(), text)


def unescaped(url: str, base: str, rng: random.Random) -> str:
    """Letters outside ASCII written as themselves."""
    text = rooted(url, base, rng)
    return re.sub(r"(?:%[89A-F][0-9A-F])+", lambda run: unquote(run.group()), text)


def with_spaces(url: str, base: str, rng: random.Random) -> str:
    """White space around the URL, a line break and a tab inside it."""
    text = rooted(url, base, rng)
    middle = len(text) // 2
    return f" \n{text[:middle]}\n\t{text[middle:]}  "


def with_backslashes(url: str, base: str, rng: random.Random) -> str:
    """Backslashes in the path."""
    path, mark, query = rooted(url, base, rng).partition("?")
    return path.replace("/", "\\") + mark + query


def _site(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


WAYS: tuple[Way, ...] = (
    absolute,
    rooted,
    relative,
    without_scheme,
    shouted,
    padded_port,
    with_user,
    with_fragment,
    with_empty_query,
    with_dots,
    escaped,
    lower_case_escapes,
    unescaped,
    with_spaces,
    with_backslashes,
)
