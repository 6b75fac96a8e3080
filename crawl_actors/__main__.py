"""`python -m crawl_actors` is `crawl-actors`."""

import sys

from crawl_actors.cli import main

sys.exit(main())
