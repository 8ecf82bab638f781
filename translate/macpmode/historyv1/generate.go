// Package historyv1 contains the stored entries of the history of a session.
package historyv1

//go:generate go run -modfile=../../../.tools/go.mod ../../../.ci/proto.go .
