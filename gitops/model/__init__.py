"""Typed documents, identities, findings: the words every other folder speaks. No I/O, no clock."""
