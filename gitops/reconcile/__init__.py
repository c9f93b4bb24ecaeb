"""The engine: heads, cluster workers, unit workers, drift and retries."""
