"""Keeps the corpus's own tests out of ours."""

collect_ignore = ["repositories"]
