"""What schemas say of objects: which lists have keys, and whether an API server would take an object."""
