"""The gate of rights: which roles a ServiceAccount has, what of them is refused, and what a person has to accept."""
