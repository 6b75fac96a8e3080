"""pottery's Redlock as it is shipped, imported whatever `$REDIS_URL` says.

When it is imported, pottery makes a client for `$REDIS_URL`, which we never use, and fails where
redis-py cannot read the URL: `embedded://` and `sentinel://` are ours. It also tells of its import
and of each script, at INFO, in every worker.
"""

from __future__ import annotations

import logging
import os

if logging.getLogger("pottery").level == logging.NOTSET:
    logging.getLogger("pottery").setLevel(logging.WARNING)

try:
    from pottery.redlock import Redlock as ShippedRedlock
except ValueError:
    _url = os.environ.pop("REDIS_URL", "")
    try:
        from pottery.redlock import Redlock as ShippedRedlock
    finally:
        os.environ["REDIS_URL"] = _url

__all__ = ["ShippedRedlock"]
