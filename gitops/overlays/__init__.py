"""Patches merged over a base, and which file and line set each leaf. No I/O."""
