"""What live objects mean: status mappings, owner tree, aggregation. No I/O, no clock."""
