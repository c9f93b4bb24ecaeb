"""Fixtures of the whole engine: see fleet_kit.fixtures."""

from fleet_kit.fixtures import fleet, planes, repo

__all__ = ["fleet", "planes", "repo"]
