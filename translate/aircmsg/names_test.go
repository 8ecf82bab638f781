package aircmsg_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

func TestDecodeReadsExactNames(t *testing.T) {
	const id = "01KE6M3H9Q2V7W8X4Y5Z6A7B8C"
	for _, payload := range []string{
		`{"type":"ack","data":{"replyTo":"` + id + `","status":"received","reason":"soon"}}`,
		`{"type":"task:result","data":{"requestId":"` + id + `","status":"completed","result":{"note":"done","pages":3}}}`,
		`{"type":"task:request","data":{"description":"Cite","priority":"high","deadline":2000000000,"context":{"a":1},` +
			`"handoff":{"caps":["cite"],"channel":"#ops","context_ref":"https://a.example/c"}}}`,
		`{"type":"handoff","task":{"title":"Cite","intent":"why","priority":"low"}}`,
		`{"type":"at.freeq:handoff","data":{"handoff":{"id":"` + id + `","event":"accept","note":"yes","proof":{"scheme":"handoff","document":"d","signature":"s","publicKey":"p"}}}}`,
		`{"type":"ack","content":{"ref":"` + id + `","status":"rejected","message":"no"}}`,
	} {
		federationtest.NamesRead(t, payload, func(text []byte) (any, error) { return aircmsg.Decode(text) }, "context", "result")
	}
	federationtest.NamesRead(t, `{"type":"at.freeq:message","replyTo":"m1","data":{"handoff":{"id":"`+id+`"}}}`, func(text []byte) (any, error) {
		about, replyTo, ok := aircmsg.Mentions(text)
		if !ok {
			return nil, errors.New("no text")
		}
		return [2]string{about.String(), replyTo}, nil
	})
}
