"""What the differential test of verdicts is made of: samples, mutations, and the real API server as the oracle."""
