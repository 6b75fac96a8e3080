"""One module per system under test; which there are is in `registry`."""
