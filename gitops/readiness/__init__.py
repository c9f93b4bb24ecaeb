"""Live objects → statuses: mappings, freshness, owner tree, aggregation. Pure: time is passed in, nothing is read."""
