package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/mr-tron/base58"
	"github.com/oklog/ulid/v2"
)

type talker struct {
	*client

	did string
	kid string
	key ed25519.PrivateKey
}

func newTalker(c *client) (*talker, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(public)
	return &talker{
		client: c, key: private, kid: base64.RawURLEncoding.EncodeToString(sum[:16]),
		did: "did:key:z" + base58.Encode(append([]byte{0xed, 0x01}, public...)),
	}, nil
}

func (t *talker) say(text string) error { return t.write("PRIVMSG " + channel + " :" + text + "\r\n") }

// offer implements sender. The offer is open to the channel.
func (t *talker) offer(title string) error {
	id := ulid.Make().String()
	fields := map[string]string{"handoff": "offer", "handoff-id": id, "handoff-from": t.did, "handoff-task": title}
	document := maps.Clone(fields)
	document["from"], document["target"], document["id"] = t.did, channel, id
	signed, err := json.Marshal(document) // RFC 8785: sorted names, and these values need no escape
	if err != nil {
		return err
	}
	fields["eventid"] = id
	fields["sig"] = "ed25519:" + t.kid + ":" + base64.RawURLEncoding.EncodeToString(ed25519.Sign(t.key, signed))
	tags := map[string]string{}
	for name, value := range fields {
		tags["+freeq.at/"+name] = value
	}
	m := ircmsg.MakeMessage(tags, "", "TAGMSG", channel)
	line, err := m.Line()
	if err != nil {
		return err
	}
	return t.write(line)
}
