"""Operators played for the demo and for tests."""
