// Package taskv1 contains the messages of macp.modes.task.v1, the task mode.
package taskv1

//go:generate go run -modfile=../../../.tools/go.mod ../../../.ci/proto.go .
