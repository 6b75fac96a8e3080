import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_actors.scope import Scope


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("docs.example.com", "http://docs.example.com/"),
        ("docs.example.com", "https://DOCS.example.com:8443/a"),
        ("Docs.Example.COM", "http://docs.example.com/"),
        ("bücher.example", "http://xn--bcher-kva.example/"),
        ("example.com:8080", "http://example.com:8080/"),
        ("example.com:80", "http://example.com/"),
        ("example.com:443", "https://example.com/"),
        ("127.0.0.1", "http://127.0.0.1:9000/"),
        ("[::1]:8000", "http://[::1]:8000/"),
        ("*.example.com", "http://a.example.com/"),
        ("*.example.com", "https://a.b.example.com:1/"),
        ("*.example.com:8080", "http://a.example.com:8080/"),
        ("https://example.com/docs/", "https://example.com/docs/a?b"),
        ("https://example.com/docs/", "https://example.com/x/../docs/"),
        ("https://example.com", "https://example.com/anything"),
        ("https://example.com/%7ea/", "https://example.com/~a/b"),
    ],
)
def test_an_entry_covers_its_urls(entry: str, url: str) -> None:
    assert Scope((entry,)).contains(url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("example.com", "http://www.example.com/"),
        ("example.com", "http://example.com.evil.example/"),
        ("example.com", "http://example.com@evil.example/"),
        ("example.com", "http://evil.example/example.com"),
        ("example.com", "http://notexample.com/"),
        ("example.com", "ftp://example.com/"),
        ("example.com", "nonsense"),
        ("example.com:8080", "http://example.com/"),
        ("example.com:80", "https://example.com/"),
        ("*.example.com", "http://example.com/"),
        ("*.example.com", "http://notexample.com/"),
        ("*.example.com:8080", "http://a.example.com/"),
        ("https://example.com/docs/", "https://example.com/docs"),
        ("https://example.com/docs/", "http://example.com/docs/"),
        ("https://example.com/docs/", "https://example.com:8443/docs/"),
        ("https://example.com/docs/", "https://example.com/docs/../secret"),
        ("https://example.com", "https://example.com.evil.example/"),
    ],
)
def test_an_entry_covers_nothing_else(entry: str, url: str) -> None:
    assert not Scope((entry,)).contains(url)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " ",
        "*",
        "*.",
        "*.*.example.com",
        "a*.example.com",
        "exa mple.com",
        "example.com/docs",
        "user@example.com",
        "example.com:",
        "example.com:port",
        "example.com:99999",
        "*.127.0.0.1",
        "ftp://example.com/",
        "https://",
        "http://example.com:99999/",
        "::1",
    ],
)
def test_an_entry_that_means_nothing_is_named_in_the_error(entry: str) -> None:
    with pytest.raises(ValueError, match="scope entry") as caught:
        Scope(("example.com", entry))

    assert repr(entry) in str(caught.value)


def test_one_text_is_not_taken_for_a_tuple_of_entries() -> None:
    with pytest.raises(ValueError, match=r"example\.com"):
        Scope("example.com")  # type: ignore[arg-type]


def test_an_empty_scope_contains_nothing() -> None:
    assert not Scope(()).contains("http://example.com/")


def test_the_scope_of_seeds_is_their_exact_hosts_and_ports() -> None:
    scope = Scope.for_seeds(["http://127.0.0.1:8000/a/b", "http://[::1]:8001/"])

    assert scope.contains("http://127.0.0.1:8000/")
    assert scope.contains("http://[::1]:8001/x")
    assert not scope.contains("http://127.0.0.1:8001/")
    assert not scope.contains("http://127.0.0.1/")
    assert not scope.contains("http://localhost:8000/")


def test_a_seed_on_a_default_port_may_move_to_https() -> None:
    scope = Scope.for_seeds(["http://example.com/"])

    assert scope.contains("http://example.com/a")
    assert scope.contains("https://example.com/a")
    assert not scope.contains("https://example.com:8443/a")


def test_a_seed_that_is_no_url_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match=r"'example\.com'"):
        Scope.for_seeds(["http://example.com/", "example.com"])


def test_equal_entries_make_equal_scopes() -> None:
    assert Scope(("example.com",)) == Scope(("example.com",))
    assert hash(Scope(("example.com",))) == hash(Scope(("example.com",)))
    assert repr(Scope(("example.com",))) == "Scope(allow=('example.com',))"


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_the_input_there_is_an_answer_or_a_value_error(entry: str, url: str) -> None:
    try:
        scope = Scope((entry,))
    except ValueError:
        scope = Scope(())

    assert scope.contains(url) in (True, False)
