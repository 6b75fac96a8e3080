import os
from pathlib import Path

import pytest

from crawl_actors.running import RunOptions, UsageError
from crawl_actors.running.folder import RunFolder
from crawl_actors.settings import CrawlSettings

SEEDS = ("http://a.example/",)
SETTINGS = CrawlSettings(allow=("a.example",))


def test_fresh_directory_gets_a_new_crawl(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "new" / "out") as folder:
        crawl, given_up = folder.choose(SEEDS, SETTINGS, restart=False)

    assert (crawl.state, crawl.seeds, crawl.settings, given_up) == ("new", SEEDS, SETTINGS, None)


@pytest.mark.parametrize("state", ["new", "running"])
def test_unfinished_crawl_is_continued_by_the_same_command(tmp_path: Path, state: str) -> None:
    with RunFolder(tmp_path) as folder:
        crawl, _ = folder.choose(SEEDS, SETTINGS, restart=False)
        kept = folder.mark(crawl, state)  # type: ignore[arg-type]

    with RunFolder(tmp_path) as folder:
        assert folder.choose(SEEDS, SETTINGS, restart=False) == (kept, None)


def test_finished_crawl_is_followed_by_a_new_one_in_the_same_namespace(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        crawl, _ = folder.choose(SEEDS, SETTINGS, restart=False)
        folder.mark(crawl, "finished")
        new, given_up = folder.choose(("http://b.example/",), SETTINGS, restart=False)

    assert given_up is None
    assert new.crawl_id != crawl.crawl_id
    assert new.namespace == crawl.namespace


def test_restart_gives_the_unfinished_crawl_up(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        crawl, _ = folder.choose(SEEDS, SETTINGS, restart=False)
        old = folder.mark(crawl, "running")
        new, given_up = folder.choose(("http://b.example/",), SETTINGS, restart=True)

    assert given_up == old
    assert new.crawl_id != old.crawl_id


@pytest.mark.parametrize(
    ("seeds", "settings", "named"),
    [
        (
            ("http://b.example/",),
            SETTINGS,
            r"the URLs are http://a\.example/ there, are http://b\.example/ here",
        ),
        (
            SEEDS,
            CrawlSettings(allow=("a.example",), max_depth=3),
            r"--depth is not given there, is 3 here",
        ),
    ],
)
def test_unfinished_crawl_is_not_continued_by_another_command(
    tmp_path: Path, seeds: tuple[str, ...], settings: CrawlSettings, named: str
) -> None:
    with RunFolder(tmp_path) as folder:
        crawl, _ = folder.choose(SEEDS, SETTINGS, restart=False)
        folder.mark(crawl, "running")

        with pytest.raises(UsageError, match=rf"{named}.*--out.*--restart"):
            folder.choose(seeds, settings, restart=False)


def test_directory_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    with RunFolder(tmp_path), pytest.raises(UsageError, match="another run"):
        RunFolder(tmp_path)

    RunFolder(tmp_path).__exit__()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1}', '{"format": 99}'])
def test_damaged_crawl_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "crawl.json").write_text(text)

    with RunFolder(tmp_path) as folder, pytest.raises(UsageError, match=r"crawl\.json"):
        folder.choose(SEEDS, SETTINGS, restart=False)


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="file"):
        RunFolder(tmp_path / "file" / "out")


def test_crawl_file_is_replaced_at_once(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        crawl, _ = folder.choose(SEEDS, SETTINGS, restart=False)
        folder.keep(crawl)

    assert sorted(os.listdir(tmp_path)) == ["crawl.json", "run.lock"]


@pytest.mark.parametrize("options", [{"processes": 0}, {"threads": 0}, {"processes": 257}])
def test_number_of_workers_has_limits(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(options.values())))):
        RunOptions(seeds=SEEDS, **options)  # type: ignore[arg-type]
