import pytest

from dramatiq_streams.advisories import ADVISORIES, concerning, parsed


def identifiers(product: str, version: str, *, evicts_clients: bool = False) -> list[str]:
    found = concerning(product, version, evicts_clients=evicts_clients)
    return [advisory.identifier for advisory in found]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("7.0.3", {"CVE-2022-31144", "CVE-2022-35951"}),
        ("7.0.4", {"CVE-2022-35951"}),
        ("7.0.5", set()),
        ("6.2.7", set()),
        ("7.2.0", set()),
    ],
)
def test_flaws_of_xautoclaim_are_those_of_the_first_releases_of_7_0(
    version: str, expected: set[str]
) -> None:
    found = {name for name in identifiers("redis", version) if name.startswith("CVE-2022")}

    assert found == expected


@pytest.mark.parametrize(
    ("product", "version", "is_affected"),
    [
        ("redis", "6.2.19", True),
        ("redis", "6.2.20", False),
        ("redis", "7.0.15", True),  # a line that got no more releases
        ("redis", "7.2.10", True),
        ("redis", "7.2.11", False),
        ("redis", "8.0.3", True),
        ("redis", "8.2.1", True),
        ("redis", "8.2.2", False),
        ("redis", "8.4.0", False),
        ("valkey", "7.2.10", True),
        ("valkey", "8.1.3", True),
        ("valkey", "8.1.4", False),
        ("valkey", "9.0.0", False),
    ],
)
def test_flaw_ends_with_the_fix_of_its_line(
    product: str, version: str, *, is_affected: bool
) -> None:
    assert ("CVE-2025-49844" in identifiers(product, version)) is is_affected


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [("8.0.5", False), ("8.2.0", True), ("8.2.2", True), ("8.2.3", False), ("8.4.0", False)],
)
def test_flaw_of_xackdel_came_with_the_command(version: str, *, is_affected: bool) -> None:
    assert ("CVE-2025-62507" in identifiers("redis", version)) is is_affected


@pytest.mark.parametrize(
    ("product", "version", "expected"),
    [
        ("redis", "8.2.5", {"CVE-2026-23479", "redis#15594"}),
        ("redis", "8.2.6", {"redis#15594"}),
        ("redis", "8.8.0", {"redis#15594"}),
        ("redis", "8.10.1", set()),
        ("redis", "7.0.15", set()),
        ("valkey", "8.0.8", {"CVE-2026-23479", "CVE-2026-130822"}),
        ("valkey", "9.1.0", {"CVE-2026-130822"}),
        ("valkey", "9.1.4", set()),
    ],
)
def test_flaw_of_client_eviction_needs_client_eviction(
    product: str, version: str, expected: set[str]
) -> None:
    without = identifiers(product, version)
    with_it = identifiers(product, version, evicts_clients=True)

    assert set(with_it) - set(without) == expected


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [("7.0.15", False), ("7.2.15", True), ("8.2.8", True), ("8.2.9", False), ("8.10.0", False)],
)
def test_flaw_of_reads_under_an_acl(version: str, *, is_affected: bool) -> None:
    assert ("redis#15478" in identifiers("redis", version)) is is_affected


@pytest.mark.parametrize(
    ("identifier", "version", "is_affected"),
    [
        ("CVE-2024-31449", "8.0.0", True),
        ("CVE-2024-31449", "8.0.1", False),
        ("CVE-2024-46981", "8.0.1", True),
        ("CVE-2024-46981", "8.0.2", False),
        ("CVE-2025-21605", "8.0.2", True),
        ("CVE-2025-21605", "8.0.3", False),
        ("CVE-2025-67733", "9.0.1", True),
        ("CVE-2025-67733", "9.0.3", False),
        ("CVE-2026-27623", "8.1.3", False),
        ("CVE-2026-27623", "9.0.2", True),
        ("GHSA-fq2f-crmw-q97r", "9.0.3", False),
        ("GHSA-fq2f-crmw-q97r", "9.1.1", True),
        ("GHSA-fq2f-crmw-q97r", "9.1.2", False),
    ],
)
def test_flaws_of_valkey_are_those_of_its_release_notes(
    identifier: str, version: str, *, is_affected: bool
) -> None:
    assert (identifier in identifiers("valkey", version)) is is_affected


@pytest.mark.parametrize("version", ["", "unstable", "255.255.255", "9.1.2"])
def test_unknown_and_new_versions_have_no_known_flaws(version: str) -> None:
    assert identifiers("valkey", version) == []


def test_release_candidates_are_taken_for_their_release() -> None:
    assert parsed("9.0.0-rc3") == (9, 0, 0)


def test_each_advisory_is_listed_once_for_each_product() -> None:
    listed = [(advisory.identifier, advisory.product) for advisory in ADVISORIES]

    assert len(set(listed)) == len(listed)
    assert all(parsed(fix) > parsed(a.since) for a in ADVISORIES for fix in a.fixed)
