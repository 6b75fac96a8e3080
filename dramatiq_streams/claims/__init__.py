"""Sets of keys that whoever asks first has: a thousand in one call, each given out once."""

from .exact import Claims

__all__ = ["Claims"]
