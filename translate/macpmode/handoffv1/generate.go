// Package handoffv1 contains the messages of macp.modes.handoff.v1, the handoff mode.
package handoffv1

//go:generate go run -modfile=../../../.tools/go.mod ../../../.ci/proto.go .
