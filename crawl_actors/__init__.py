"""A distributed web crawler made of dramatiq actors.

Importing it sets dramatiq's global broker from the environment and declares the actors, so both
`dramatiq crawl_actors` and `from crawl_actors import crawl; crawl.send("https://example.com/")`
work. Nothing is connected to or written before the first message.
"""

from crawl_actors.requirements import explain

try:
    from crawl_actors.actors import crawl
except ModuleNotFoundError as error:
    explain(error)

__all__ = ["crawl"]
