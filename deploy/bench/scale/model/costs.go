package model

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Kind is a kind of message between homes: the type of the question, and the content of its only
// item.
type Kind string

// The kinds of questions, each with one answer.
const (
	Greeting Kind = "greeting" // a batch without steps
	Profile  Kind = "profile"  // comparison of clocks
	Mailbox  Kind = "mailbox"  // query whether the home has the mailbox of a DID
	Digest   Kind = "digest"   // of one page of handoffs
	Offer    Kind = "offer"
	Open     Kind = "open"  // an offer to anyone
	Ruled    Kind = "ruled" // a later step of such an offer, from the home of the handoff to another home
	Claim    Kind = "claim"
	Accept   Kind = "accept"
	Decline  Kind = "decline"
	Complete Kind = "complete"
	Text     Kind = "text"
)

// Exchange is the size in bytes of a question and its answer in a NATS connection, with the headers
// and the protocol line: sent by a home to the hub, and by the hub to a home.
type Exchange struct {
	Question     int `json:"question"`
	QuestionRead int `json:"question_read"`
	Answer       int `json:"answer"`
	AnswerRead   int `json:"answer_read"`
}

// Control is the size in bytes of the JetStream protocol messages besides the messages of homes.
type Control struct {
	Stored    int `json:"stored"`    // the hub confirms a message to its sender
	Ack       int `json:"ack"`       // the reader confirms a message to the hub
	Pull      int `json:"pull"`      // a reader requests messages
	Heartbeat int `json:"heartbeat"` // to a reader without messages
	Expired   int `json:"expired"`   // a request ended without a message
}

// Stored is the rows and bytes in the record for one handoff or message.
type Stored struct {
	Rows  float64 `json:"rows"`
	Bytes float64 `json:"bytes"`
}

// Costs are the measured constants of the model.
type Costs struct {
	Measured string `json:"measured"` // date
	System   string `json:"system"`

	Exchanges map[Kind]Exchange `json:"exchanges"`
	Control   Control           `json:"control"`

	DigestEntry float64 `json:"digest_entry"` // bytes of a digest for one handoff

	// Of an idle stream, per second.
	Pulls      float64 `json:"pulls"`
	Heartbeats float64 `json:"heartbeats"`
	// Greetings from one home to another idle home, per second.
	Greetings float64 `json:"greetings"`

	HubStreamBytes float64 `json:"hub_stream_bytes"` // memory of the hub for one stream with its reader
	HubPullCPU     float64 `json:"hub_pull_cpu"`     // processor time of the hub for one request of an idle stream, its end and a heartbeat
	HubExchangeCPU float64 `json:"hub_exchange_cpu"` // likewise for one exchange, of greetings of idle homes
	// Likewise, at HubExchangeRate, the highest rate of this machine.
	HubBusyExchangeCPU float64 `json:"hub_busy_exchange_cpu"`
	HubStreamStart     float64 `json:"hub_stream_start"`  // seconds until a new stream carries a message
	HubStreamFiles     float64 `json:"hub_stream_files"`  // open files
	HubStreamDisk      float64 `json:"hub_stream_disk"`   // bytes on disk of an idle stream
	HubExchangeRate    float64 `json:"hub_exchange_rate"` // exchanges per second between homes and hub on this machine
	HubPairConfig      float64 `json:"hub_pair_config"`   // bytes of the configuration for one stream

	HomePeerCPU   float64 `json:"home_peer_cpu"`   // processor time of a gateway for one idle peer, in seconds per second
	HomePeerBytes float64 `json:"home_peer_bytes"` // memory of a gateway for one peer
	VerifyCPU     float64 `json:"verify_cpu"`      // one Ed25519 verification of 1 KiB, in seconds

	// Rows in the records of the homes of the offerer (or author) and of the other party.
	OfferedHere  Stored `json:"offered_here"`
	OfferedThere Stored `json:"offered_there"`
	OpenHere     Stored `json:"open_here"`
	OpenThere    Stored `json:"open_there"`
	LocalHandoff Stored `json:"local_handoff"`
	TextHere     Stored `json:"text_here"`
	TextThere    Stored `json:"text_there"`
	LocalText    Stored `json:"local_text"`
	Location     Stored `json:"location"` // of a mailbox, or of a DID that sent steps

	// Times in seconds from an agent's request until the other agent's open request returns.
	LocalP50 float64 `json:"local_p50"`
	HubP50   float64 `json:"hub_p50"`
	HubP99   float64 `json:"hub_p99"`
}

// HubStreamCPU returns the hub's processor time for one idle stream, in seconds per second.
func (c Costs) HubStreamCPU() float64 { return c.Pulls * c.HubPullCPU }

//go:embed costs.json
var measured []byte

// Measured returns the costs of the last measurement.
func Measured() (Costs, error) {
	var c Costs
	if err := json.Unmarshal(measured, &c); err != nil {
		return c, fmt.Errorf("read costs: %w", err)
	}
	return c, nil
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Greeting, Profile, Mailbox, Digest, Offer, Open, Ruled, Claim, Accept, Decline, Complete, Text}
}
