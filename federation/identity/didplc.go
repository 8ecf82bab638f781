package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// fetchPLC reads the log of a did:plc at the directory and computes its current keys. The directory
// orders and dates operations, and cannot forge one. A log that contradicts itself is evidence against
// the directory and not against the DID, so the error is an outage.
func (d *Directory) fetchPLC(ctx context.Context, did federation.DID) (federation.Document, error) {
	if d.plc == "" {
		return federation.Document{}, unavailable("did:plc", 0, errors.New("no directory is configured"))
	}
	if !isPLC(did) {
		return federation.Document{}, errNoPLC
	}
	address, err := federation.JoinURL(d.plc, federation.URLPath("").Join(string(did), "log", "audit"), nil)
	if err != nil {
		return federation.Document{}, err
	}
	body, err := d.fetcher.Get(ctx, address)
	if err != nil {
		return federation.Document{}, err
	}
	current, err := readPLCLog(did, body)
	if err != nil {
		return federation.Document{}, unavailable("did:plc directory", 0, fmt.Errorf("the log does not hold: %w", err))
	}
	if current.kind == plcTombstone {
		return federation.Document{}, errors.New("its owner has given it up")
	}
	return current.document(did), nil
}

// errNoPLC is the error for a malformed did:plc.
var errNoPLC = errors.New("not 24 characters of base32 after the method")

// isPLC reports whether the part after the method is 24 characters of lower-case
// base32.
func isPLC(did federation.DID) bool {
	id, ok := strings.CutPrefix(string(did), plcPrefix)
	return ok && len(id) == plcIDBytes && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// document returns the keys and the mailbox that an operation lists.
func (o plcOperation) document(did federation.DID) federation.Document {
	// Whichever directory had the log, it says the same of itself.
	document := federation.Document{DID: did, Source: "did:plc", Mailbox: o.mailbox}
	for _, name := range slices.Sorted(maps.Keys(o.methods)) {
		key, err := ParsePublicKeyDID(federation.DID(o.methods[name]))
		addKey(&document, method{id: string(did) + "#" + name, key: key, err: err})
	}
	return document
}

// plcEntry is one operation as the directory lists it.
type plcEntry struct {
	did       string
	cid       string
	nullified bool
	created   time.Time
	operation json.RawMessage
}

// parsePLCEntries reads the answer of a directory.
func parsePLCEntries(body []byte) ([]plcEntry, error) {
	var items []map[string]json.RawMessage
	if err := federation.DecodeJSON(body, &items); err != nil {
		return nil, err
	}
	entries := make([]plcEntry, 0, len(items))
	for _, item := range items {
		created, err := time.Parse(time.RFC3339Nano, text(item["createdAt"]))
		if err != nil {
			return nil, fmt.Errorf("read createdAt: %w", err)
		}
		nullified := string(item["nullified"])
		if nullified != "true" && nullified != "false" {
			return nil, errors.New("nullified is neither true nor false")
		}
		entries = append(entries, plcEntry{
			did: text(item["did"]), cid: text(item["cid"]), nullified: nullified == "true",
			created: created, operation: item["operation"],
		})
	}
	return entries, nil
}
