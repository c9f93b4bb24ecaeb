"""What the tests of schemas share: the API server as the one who is right, and random schemas."""
