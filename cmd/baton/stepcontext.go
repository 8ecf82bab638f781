package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/translate"
)

// stepContext is what goes with a step: a text that the step can hold, which is empty
// where there is no context, or a file that it has to refer to.
type stepContext struct {
	text string
	file []byte // nil for a text
}

// readContext returns a reference as it is, JSON in its shortest form where a step can
// hold that, and any other file as it is.
func readContext(source string) (stepContext, error) {
	if source == "" || strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "at://") {
		return stepContext{text: source}, nil
	}
	file, err := os.Open(source) //nolint:gosec // the operator names the file
	if err != nil {
		return stepContext{}, fmt.Errorf("read context: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, federation.MaxBlobBytes+1))
	if err != nil {
		return stepContext{}, fmt.Errorf("read context: %w", err)
	}
	if len(content) > federation.MaxBlobBytes {
		return stepContext{}, fmt.Errorf("read context: %s has more than %d bytes", source, federation.MaxBlobBytes)
	}
	var short bytes.Buffer
	if json.Compact(&short, content) == nil && federation.InlineContext(short.String()) && translate.ValidContext(short.String()) {
		return stepContext{text: short.String()}, nil
	}
	return stepContext{file: content}, nil
}

// in returns the context as a request of somebody has it: what a step can hold is the
// gateway's to store, where it does not fit after all.
func (c stepContext) in(ctx context.Context, gateway *client, owner string) (text, hash string, err error) {
	if c.file == nil {
		return c.text, "", nil
	}
	return c.stored(ctx, gateway, owner)
}

// stored has the gateway keep the context, and returns the reference and its hash. A
// reference that somebody gave stays what it is.
func (c stepContext) stored(ctx context.Context, gateway *client, owner string) (reference, hash string, err error) {
	content := c.file
	if content == nil {
		if !federation.InlineContext(c.text) {
			return c.text, "", nil
		}
		content = []byte(c.text)
	}
	kept, err := answered[operatorapi.Stored](gateway.StoreBlobWithBody(ctx, &contract.StoreBlobParams{Owner: owner}, "application/octet-stream", bytes.NewReader(content)))
	if err != nil {
		return "", "", fmt.Errorf("store context: %w", err)
	}
	return kept.URL, kept.SHA256, nil
}
