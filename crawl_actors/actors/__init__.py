"""The crawler's actors, one per file: check, call a room, send what is next."""

from crawl_actors.actors.crawl import crawl
from crawl_actors.actors.fetch_page import fetch_page
from crawl_actors.actors.give_up import give_up
from crawl_actors.actors.parse_page import parse_page
from crawl_actors.actors.store_page import store_page

__all__ = ["crawl", "fetch_page", "give_up", "parse_page", "store_page"]
