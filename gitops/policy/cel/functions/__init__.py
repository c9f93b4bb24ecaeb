"""The functions of Kubernetes' CEL library, by subject. Source: k8s.io/apiserver/pkg/cel/library, cel-go/ext (1.34)."""
