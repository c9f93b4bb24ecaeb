"""Producers of the rows of the error table, registered when they are imported."""

from cluster_kit.error_producers import admission, answers, refusals, waits

__all__ = ["admission", "answers", "refusals", "waits"]
