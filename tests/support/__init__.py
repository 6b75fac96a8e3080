"""What the tests stand on: real servers, real worker processes, faults, waiting, comparison."""
