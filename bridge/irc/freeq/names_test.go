package freeq_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
)

func TestOpenReadsExactNames(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := func(line []byte) (any, error) {
		m, why := freeq.OpenLine(line, public)
		if why != "" {
			return nil, errors.New(why)
		}
		return m, nil
	}
	sealed := func(inner []byte) []byte {
		line, err := json.Marshal(map[string]string{
			"type": "signed", "payload": base64.RawURLEncoding.EncodeToString(inner), "signer": identity.EndpointID(public),
			"signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, inner)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	for _, message := range []string{
		`{"type":"tagmsg","event_id":"e1","from":"ada","target":"#ops","tags":{"+freeq.at/act":"offer"},"origin":"o","account":"a","msgid":"m"}`,
		`{"type":"privmsg","event_id":"e1","from":"ada","target":"#ops","text":"hi","tags":{},"origin":"o","recipient_did":"did:plc:ada"}`,
		`{"type":"join","event_id":"e1","nick":"ada","channel":"#ops","did":"did:plc:ada","handle":"h","is_op":true,"actor_class":"agent","origin":"o"}`,
		`{"type":"mode","event_id":"e1","channel":"#ops","mode":"+o","arg":"ada","set_by":"op","origin":"o"}`,
		`{"type":"catchup_events","origin":"o","events":[{"event_id":"e1","kind":"act","venue":"#ops","timestamp":1,"canonical":"{}","signature":"s","actor_did":"a","subject":"s","origin":"o"}],"more":true}`,
		`{"type":"sync_response","server_id":"s","channels":[{"name":"#ops"}]}`,
	} {
		federationtest.NamesRead(t, message, func(text []byte) (any, error) { return opened(sealed(text)) }, "tags")
	}
	federationtest.NamesRead(t, `{"type":"hello","peer_id":"p","server_name":"s","protocol_version":1,"trust_level":"full","capabilities":["x"]}`, opened)
	federationtest.NamesRead(t, string(sealed([]byte(`{"type":"sync_request"}`))), opened)
}
