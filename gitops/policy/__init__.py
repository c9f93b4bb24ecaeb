"""Operator registry, placement and the rules on what may be declared. No I/O besides reading shipped data."""
