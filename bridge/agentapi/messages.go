package agentapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

// CreateMessage implements [contract.StrictServerInterface].
func (l *Link) CreateMessage(ctx context.Context, req contract.CreateMessageRequestObject) (contract.CreateMessageResponseObject, error) {
	b := *req.Body
	done, err := l.access.Say(ctx, callerOf(ctx).Caller, participant.MessageRequest{To: b.To, Text: b.Text, Handoff: b.Handoff}, req.Params.IdempotencyKey)
	return sent(done), err
}

// sent is the answer to a message.
type sent participant.Sent

// VisitCreateMessageResponse implements [contract.CreateMessageResponseObject].
func (s sent) VisitCreateMessageResponse(w http.ResponseWriter) error {
	text, err := json.Marshal(participant.Sent(s))
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if s.Status == participant.StatusHeld {
		status = http.StatusAccepted
	}
	if s.Replayed {
		w.Header().Set(replayedHeader, "true")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(append(text, '\n'))
	return err
}

// The types of what is in an inbox.
const (
	typeStep    = "step"
	typeMessage = "message"
)

// typeOf returns the type of an entry.
func typeOf(e federation.Entry) string {
	if e.Event.IsMessage() {
		return typeMessage
	}
	return typeStep
}

func (l *Link) shapeMessage(ctx context.Context, e federation.Entry) contract.Message {
	ev := e.Event
	m := contract.Message{
		ID: ev.ID.String(), From: string(ev.Actor()), Name: l.access.Name(ctx, ev.Actor()), To: string(ev.To), Text: ev.Text(), Handoff: ev.About().String(),
		Network: ev.Arrival.Network, Time: moment(ev.Time()), Filed: moment(e.Filed),
		Introduction: introduction(ev),
	}
	if ev.Evidence != nil {
		m.Evidence = contract.Evidence{URL: ev.Evidence.URL, Sha256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	return m
}
