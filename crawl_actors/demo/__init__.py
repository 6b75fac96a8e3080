"""A site full of traps on the loopback interface, and the check that a crawl of it was right.

`site` makes the site from a seed, `truth` says what a right crawl of it looks like, `server`
serves it and records every request, and `check` compares a finished crawl with the truth. Nothing
here looks at how the crawler works: the truth comes from the site alone.
"""
