"""Meaning of GE ops on torch tensors, one family per file; ``OPS`` maps an op type to its function."""
