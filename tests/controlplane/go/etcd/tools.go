//go:build tools

// Package etcd pins the store under the API server: go.mod names the version.
package etcd

import _ "go.etcd.io/etcd/server/v3"
