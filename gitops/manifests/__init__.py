"""YAML text to documents with lines; quantities; canonical JSON and digests. No I/O."""
