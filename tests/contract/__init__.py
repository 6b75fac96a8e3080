"""What dramatiq asks of a broker, one test for each fact; where it makes sense of StubBroker too.

The facts are those of dramatiq 2.2, grouped as its parts ask for them.

| what dramatiq relies on | tests |
|---|---|
| 1. Threads: ack and nack from many threads while `__next__` runs | `test_settling.py` |
| 1. Enqueue from anywhere, hit by asynchronous exceptions | `test_interrupts.py` |
| 2. Construction, base attributes, hashing, nothing opened | `test_construction.py` |
| 2. `declare_queue`, `declare_actor`, options, signals of both | `test_declaring.py` |
| 2. `enqueue`: proxies, ids, order of signals, encoding | `test_enqueue.py` |
| 2. `enqueue`: delays and `eta` | `test_delay_option.py` |
| 2. `enqueue` of a retry: replaces its original or leaves it | `test_hand_over*.py` |
| 2. `join`, `flush`, `flush_all` | `test_joining.py` |
| 2. `close` of the broker | `test_construction.py`, `test_errors.py` |
| 3. `consume`, prefetch, `__next__`, the proxy, no `eta` | `test_consuming.py` |
| 3. `ack`, `nack`: repeated, late, on closed consumers | `test_settling.py` |
| 3. `requeue`, `close` of a consumer | `test_giving_back.py` |
| 4. Which errors leave which call | `test_errors.py` |
| 4. What the Worker does on errors: restarts, repeated acks | `test_worker.py` |
| 4. Bodies that do not decode | `test_dead_letters.py` |
| 5. Life of a message: signals, failures | `test_worker.py`, `test_dead_letters.py` |
| 6. No delay queue is declared | `test_declaring.py`, `test_worker.py` |
| 7. Forks; shutdown gives back what was not started | `test_construction.py`, `test_worker.py` |
| 7. The command line | `tests/integration/test_command_line.py` |
| 8. Composition, results, Prometheus, dashboards | `tests/integration/`, `test_construction.py` |
"""
