"""One target cluster: connection, discovery, server-side apply, watches, parents, claim and Lease."""
