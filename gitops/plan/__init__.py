"""Compile a tree into units; order, diff, prune proof: everything decided, nothing done."""
