"""YAML for tests of the reader: texts as people write them, and what kubectl makes of a text."""
