"""Taking over what dramatiq's own RedisBroker has queued, while both brokers may be in use.

A message goes in three steps, each of which is one script, so that a migration may be killed at any
instant and another one may run beside it:

1. `depart`, on the source: out of RedisBroker's keys, into a stream of messages in transit, already
   in the form in which they arrive. No worker of RedisBroker can have them any more.
2. `adopt`, on the target: to its lane, the delayed messages or the dead letters. The target notes
   the last row of each run there, so that what comes again changes nothing.
3. `confirm`, on the source: out of transit.

Whoever migrates sends what is in transit first, from the oldest on, whoever has put it there.
"""
