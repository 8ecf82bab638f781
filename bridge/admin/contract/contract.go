// Package contract is the operator API as it is promised: each route as a typed value, and the
// documents of their requests and answers. Package admin serves the routes, and the commands of
// the program call them with package client. A test of admin derives openapi.yaml from them.
package contract

//go:generate go test .. -run ^TestTheContractIsThatOfTheRoutes$ -update
