"""The daemon inside a sandbox of the E2B-compatible server: copied into each container and run there by its own
python3 as root, so the standard library is all it has."""
