"""The bare Git mirror, trees of it, and commits on the status branch."""
