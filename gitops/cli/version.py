"""The version that is installed."""

from __future__ import annotations


def installed_version() -> str | None:
    """None when this runs from a folder that was never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gitops-reconciler")
    except PackageNotFoundError:
        return None
