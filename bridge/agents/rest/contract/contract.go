// Package contract is the contract of the REST API for agents: its routes, and the types of their
// requests and answers. A test of rest derives the documents from them, openapi.json for programs
// and openapi.html for people.
package contract

import _ "embed"

//go:generate go test .. -run ^TestContractMatchesTheRoutes$ -update

//go:embed openapi.json
var document []byte

//go:embed openapi.html
var page []byte

// Document returns the OpenAPI document. The caller must not change it.
func Document() []byte { return document }

// Page returns the document as a page for people. The caller must not change it.
func Page() []byte { return page }
