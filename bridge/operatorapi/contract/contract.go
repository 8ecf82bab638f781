// Package contract is the operator API as it is promised: each route as a typed value, and the
// documents of their requests and answers. Package operatorapi serves the routes, and the commands of
// the program call them with package client. A test of operatorapi derives openapi.yaml from them.
package contract

//go:generate go test .. -run ^TestTheContractIsThatOfTheRoutes$ -update
