"""Duplicate suppression with fencing, on locks that a quorum of servers grants."""

from .middleware import Idempotency
from .tokens import current_fencing_token, fencing_token, lease_is_lost

__all__ = ["Idempotency", "current_fencing_token", "fencing_token", "lease_is_lost"]
