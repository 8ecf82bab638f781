// Package historyv1 has the entries of the history of a session, as the gateway keeps them.
package historyv1

//go:generate go run -modfile=../../../.tools/go.mod ../../../.ci/proto.go .
