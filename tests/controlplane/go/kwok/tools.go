//go:build tools

// Package kwok pins the fake kubelet that makes nodes Ready and pods Running: go.mod names the version.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
