// Package macpv1 contains the messages of macp.v1, the core of the Multi-Agent Coordination Protocol.
package macpv1

//go:generate go run -modfile=../../../.tools/go.mod ../../../.ci/proto.go .
