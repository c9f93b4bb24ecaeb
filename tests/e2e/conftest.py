"""Fixtures of the whole engine: see fleet_kit.fixtures."""

from fleet_kit.fixtures import fleet, plane, planes, repo

__all__ = ["fleet", "plane", "planes", "repo"]
