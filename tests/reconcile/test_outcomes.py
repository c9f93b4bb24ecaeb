"""What of a unit's outcome is worth a line in the log."""

from __future__ import annotations

from dataclasses import replace

from gitops.reconcile.outcomes import SyncState, UnitOutcome

SYNCED = UnitOutcome(SyncState.SYNCED, "as declared")
WAITING = UnitOutcome(SyncState.WAITING, "waiting for a kind", retry_after=1.0)


def test_a_second_try_that_meets_the_same_is_no_news() -> None:
    assert WAITING.is_news_after(SYNCED)
    assert not replace(WAITING, retry_after=2.0).is_news_after(WAITING)
    assert not SYNCED.is_news_after(SYNCED)


def test_whatever_was_written_is_news_also_when_the_unit_was_in_sync_before() -> None:
    first, second = replace(SYNCED, applied=1), replace(SYNCED, applied=1)
    assert second.is_news_after(first)
    assert replace(SYNCED, repaired=1).is_news_after(SYNCED)


def test_the_line_says_how_much_was_written() -> None:
    assert SYNCED.done == ""
    assert replace(SYNCED, applied=2, pruned=1).done == " (2 applied, 1 deleted)"
