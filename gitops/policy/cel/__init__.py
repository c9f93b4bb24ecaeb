"""CEL as an API server evaluates it: Kubernetes' function library, single expressions, the rules of a schema."""
