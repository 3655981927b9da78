"""Who runs the next stage, where, and when."""
