"""Sandboxes: one contract, several providers, and the git work done over any of them."""
