"""A local GitHub with real git, and a sample repository: the main job on this machine, with no account anywhere."""
