"""The product's rules as values and pure functions: no I/O, no clock, no environment."""
