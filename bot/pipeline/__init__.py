"""The stages: one file each, four beats each — load, decide, save, act. Any of them may run twice."""
