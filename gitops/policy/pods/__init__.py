"""Pods inside objects: where they are written, and whether a namespace's Pod Security level will let them run."""
