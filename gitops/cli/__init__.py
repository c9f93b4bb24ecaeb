"""The command line: one module per command. Rich output and heavy imports only inside commands."""
