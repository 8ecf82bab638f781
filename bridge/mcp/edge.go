package mcp

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"baton/bridge/participant"
)

// toolError is an error as a tool answers it.
type toolError struct {
	Code       string `json:"code"` // that of a problem of REST
	Detail     string `json:"detail"`
	Retryable  bool   `json:"retryable"`
	RetryAfter int    `json:"retry_after"`        // seconds; 0 where it is unknown
	Assignee   string `json:"assignee,omitempty"` // of a handoff that another participant has
}

// toolErrorOf returns how an error is told. It is the one place where our errors become errors of
// tools.
func toolErrorOf(err error) toolError {
	p := participant.ProblemOf(err)
	return toolError{
		Code: p.Code, Detail: p.Detail, Retryable: participant.Retryable(p), RetryAfter: p.RetryAfter, Assignee: string(participant.Winner(err)),
	}
}

// refusal returns an error as the result of a tool.
func refusal(err error) *mcp.CallToolResult {
	told := toolErrorOf(err)
	structured, failed := json.Marshal(map[string]toolError{"error": told})
	if failed != nil {
		structured = json.RawMessage(`{"error":{}}`)
	}
	return &mcp.CallToolResult{
		IsError: true, StructuredContent: json.RawMessage(structured),
		Content: []mcp.Content{&mcp.TextContent{Text: told.Code + ": " + escape(told.Detail)}},
	}
}
