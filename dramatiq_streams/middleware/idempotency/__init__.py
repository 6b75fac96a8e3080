"""Duplicate suppression with fencing, on locks that a quorum of servers grants."""
