"""Middleware that belongs to the broker, one class per file, named after what it gives an actor."""

from .idempotency import Idempotency, current_fencing_token, fencing_token, lease_is_lost

__all__ = ["Idempotency", "current_fencing_token", "fencing_token", "lease_is_lost"]
