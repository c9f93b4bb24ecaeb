"""The engine: heads, cluster workers, the work on units, drift and retries."""
