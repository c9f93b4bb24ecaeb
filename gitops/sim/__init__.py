"""Operators played for the demo and for tests: what the real ones do to objects and status, without their images.

The CustomResourceDefinitions in crds/ are our own, with the shapes that matter here; the operators run as well on the
real ones.
"""

from __future__ import annotations

from pathlib import Path

CRDS = Path(__file__).resolve().parent / "crds"
"""Folder of the CustomResourceDefinitions, one file each."""
