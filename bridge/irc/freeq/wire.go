package freeq

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/baton-gateway/baton/federation"
)

// Servers have no limit on lines between each other. The state of all channels or a page of a log
// may take megabytes, and grows by a third in its envelope.
const maxLineBytes = 16 << 20

const readBufferBytes = 64 << 10

// All other message types are ignored.
const (
	typeHello          = "hello"
	typeHelloAck       = "hello_ack"
	typeSigned         = "signed"
	typeSyncRequest    = "sync_request"
	typeSyncResponse   = "sync_response"
	typeJoin           = "join"
	typePart           = "part"
	typeQuit           = "quit"
	typeNickChange     = "nick_change"
	typeKick           = "kick"
	typeMode           = "mode"
	typePrivmsg        = "privmsg"
	typeTagmsg         = "tagmsg"
	typeActRoute       = "act_route"
	typeCatchupRequest = "catchup_request"
	typeCatchupEvents  = "catchup_events"
)

// A peer sends some messages only to a gateway with these capabilities.
const (
	capCatchup = "catchup"
	capAct     = "act"
	capRoute   = "act_route"
)

// capLossless declares that this end keeps each message that it reads, or requests it again. A
// response therefore acknowledges everything written before its request. No server declares it,
// because a server drops messages over its rate limit.
const capLossless = "lossless"

type hello struct {
	Type         string   `json:"type"`
	PeerID       string   `json:"peer_id"`
	ServerName   string   `json:"server_name"`
	Version      int      `json:"protocol_version"`
	TrustLevel   string   `json:"trust_level,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
}

type helloAck struct {
	Type       string `json:"type"`
	PeerID     string `json:"peer_id"`
	Accepted   *bool  `json:"accepted"`
	TrustLevel string `json:"trust_level,omitempty"`
}

type syncRequest struct {
	Type string `json:"type"`
}

type syncResponse struct {
	Type     string         `json:"type"`
	ServerID string         `json:"server_id"`
	Channels []channelState `json:"channels"`
}

type channelState struct {
	Name        string     `json:"name"`
	Topic       *string    `json:"topic"`
	Nicks       []string   `json:"nicks"`
	Members     []nickInfo `json:"nick_info"`
	FounderDID  *string    `json:"founder_did"`
	Ops         []string   `json:"did_ops"`
	CreatedAt   int64      `json:"created_at"`
	TopicLocked bool       `json:"topic_locked"`
	InviteOnly  bool       `json:"invite_only"`
	NoExternal  bool       `json:"no_ext_msg"`
	Moderated   bool       `json:"moderated"`
	Key         *string    `json:"key"`
	Bans        []any      `json:"bans"`
	Invites     []any      `json:"invites"`
	Exceptions  []any      `json:"invite_exceptions"`
}

type nickInfo struct {
	Nick       string  `json:"nick"`
	IsOp       bool    `json:"is_op"`
	DID        *string `json:"did"`
	ActorClass *string `json:"actor_class"`
}

// Each kind of message uses only some of these fields.
type member struct {
	Type       string  `json:"type"`
	EventID    string  `json:"event_id"`
	Nick       string  `json:"nick,omitempty"`
	Channel    string  `json:"channel,omitempty"`
	DID        *string `json:"did,omitempty"`
	Handle     *string `json:"handle,omitempty"`
	IsOp       bool    `json:"is_op,omitempty"`
	ActorClass string  `json:"actor_class,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Old        string  `json:"old,omitempty"`
	New        string  `json:"new,omitempty"`
	Origin     string  `json:"origin"`
}

type mode struct {
	Type    string  `json:"type"`
	EventID string  `json:"event_id"`
	Channel string  `json:"channel"`
	Mode    string  `json:"mode"`
	Arg     *string `json:"arg"`
	SetBy   string  `json:"set_by"`
	Origin  string  `json:"origin"`
}

type wireMessage struct {
	Type    string            `json:"type"`
	EventID string            `json:"event_id"`
	From    string            `json:"from"`
	Target  string            `json:"target"`
	Text    string            `json:"text,omitempty"`
	Tags    map[string]string `json:"tags"`
	Origin  string            `json:"origin"`
	Account string            `json:"account,omitempty"`
	MsgID   string            `json:"msgid,omitempty"`
	Reader  string            `json:"recipient_did,omitempty"` // reader of a private line, which is filed under both DIDs
}

type route struct {
	Type    string            `json:"type"`
	EventID string            `json:"event_id"`
	Act     string            `json:"act_id"`
	Step    string            `json:"act_event_id"`
	Tags    map[string]string `json:"tags"`
	Target  string            `json:"target"`
	From    string            `json:"from"`
	Account string            `json:"account,omitempty"`
	Origin  string            `json:"origin"`
}

type catchupRequest struct {
	Type   string `json:"type"`
	PeerID string `json:"peer_id"`
	Since  int64  `json:"since_ts"` // unix seconds
	Limit  int    `json:"limit"`    // 0 for the peer's default
}

type catchupEvents struct {
	Type   string     `json:"type"`
	Origin string     `json:"origin"`
	Events []replayed `json:"events"`
	More   bool       `json:"more"`
}

type replayed struct {
	EventID   string `json:"event_id"`
	Kind      string `json:"kind"`
	Venue     string `json:"venue"`
	Timestamp int64  `json:"timestamp"`
	Canonical string `json:"canonical"`
	Signature string `json:"signature,omitempty"`
	Actor     string `json:"actor_did,omitempty"`
	Subject   string `json:"subject,omitempty"` // handoff of a step other than an offer
	Origin    string `json:"origin"`            // of a step: endpoint ID of the server that opened its handoff
}

// A reason is a metric label from a closed set.
type reason string

const (
	tooLong     reason = "too_long"
	malformed   reason = "malformed"
	badEnvelope reason = "bad_envelope"
	unsigned    reason = "unsigned"
	incomplete  reason = "incomplete"
	foreign     reason = "foreign_origin"
	repeated    reason = "repeated"
	flooded     reason = "flooded"
	noMessageID reason = "no_msgid"
)

// read returns nil for an irrelevant type, and a reason if the message lacks a required member.
func read(text []byte) (any, reason) {
	var head struct {
		Type string `json:"type"`
	}
	if err := federation.DecodeJSON(text, &head); err != nil {
		return nil, malformed
	}
	m := blank(head.Type)
	if m == nil {
		return nil, ""
	}
	if err := federation.DecodeJSON(text, m); err != nil {
		return nil, malformed
	}
	if !complete(m) {
		return nil, incomplete
	}
	return m, ""
}

func blank(kind string) any {
	switch kind {
	case typeHello:
		return &hello{}
	case typeHelloAck:
		return &helloAck{}
	case typeSyncRequest:
		return &syncRequest{}
	case typeSyncResponse:
		return &syncResponse{}
	case typeJoin, typePart, typeQuit, typeNickChange, typeKick:
		return &member{}
	case typeMode:
		return &mode{}
	case typeTagmsg, typePrivmsg:
		return &wireMessage{}
	case typeActRoute:
		return &route{}
	case typeCatchupRequest:
		return &catchupRequest{}
	case typeCatchupEvents:
		return &catchupEvents{}
	}
	return nil // such as topics and bans
}

func complete(m any) bool {
	switch m := m.(type) {
	case *hello:
		return m.PeerID != "" && m.ServerName != ""
	case *helloAck:
		return m.PeerID != "" && m.Accepted != nil
	case *syncResponse:
		return m.ServerID != "" && m.Channels != nil
	case *member:
		return m.Origin != "" && m.names()
	case *mode:
		return m.Origin != "" && m.Channel != ""
	case *wireMessage:
		return m.From != "" && m.Target != "" && (m.Tags != nil || m.Type == typePrivmsg)
	case *route:
		return m.Act != "" && m.Step != "" && m.From != "" && m.Target != "" && m.Tags != nil
	case *catchupRequest:
		return m.PeerID != ""
	case *catchupEvents:
		return m.Origin != "" && m.Events != nil
	}
	return true
}

func (m *member) names() bool {
	switch m.Type {
	case typeNickChange:
		return m.Old != "" && m.New != ""
	case typeQuit:
		return m.Nick != ""
	}
	return m.Nick != "" && m.Channel != ""
}

// encode leaves signed text unchanged: no HTML escapes.
func encode(m any) ([]byte, error) {
	var line strings.Builder
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return []byte(strings.TrimSuffix(line.String(), "\n")), nil
}
