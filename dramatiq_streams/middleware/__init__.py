"""Middleware that belongs to the broker, one class per file, named after what it gives an actor."""
