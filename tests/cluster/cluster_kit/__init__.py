"""What live tests of one cluster share."""
