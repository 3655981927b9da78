"""Models: one protocol, three real adapters."""
