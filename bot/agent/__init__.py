"""The agent: a loop over one model, the tools it may use, and the words it is given."""
