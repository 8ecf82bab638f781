// Package contract is the operator API as it is promised: openapi.yaml, the server interface and
// the client that are generated from it, and its documents. Package operatorapi serves it, and
// the commands of the program use the client.
package contract

//go:generate go tool -modfile=../../../.tools/go.mod oapi-codegen --config generate.yaml openapi.yaml
