package operatorapi

import "baton/bridge/operatorapi/contract"

// The contract defines the documents of the API.
//
//nolint:revive // the contract describes each of them
type (
	Moment          = contract.Moment
	Page[T any]     = contract.Page[T]
	Act             = contract.Act
	Acted           = contract.Acted
	LevelAsk        = contract.LevelAsk
	Handoff         = contract.Handoff
	Step            = contract.Step
	Evidence        = contract.Evidence
	Delivery        = contract.Delivery
	Filed           = contract.Filed
	Place           = contract.Place
	Ask             = contract.Ask
	Proof           = contract.Proof
	Stored          = contract.Stored
	Explanation     = contract.Explanation
	Route           = contract.Route
	ExplainedKey    = contract.ExplainedKey
	Hop             = contract.Hop
	Next            = contract.Next
	Arrived         = contract.Arrived
	Ack             = contract.Ack
	Move            = contract.Move
	Moved           = contract.Moved
	Link            = contract.Link
	LinkDetail      = contract.LinkDetail
	LinkLimits      = contract.LinkLimits
	Waiting         = contract.Waiting
	Shape           = contract.Shape
	DeadLetter      = contract.DeadLetter
	Held            = contract.Held
	DeadDetail      = contract.DeadDetail
	Try             = contract.Try
	Webhook         = contract.Webhook
	WebhookDetail   = contract.WebhookDetail
	WebhookDelivery = contract.WebhookDelivery
	Peer            = contract.Peer
	PeerHome        = contract.PeerHome
	Doubt           = contract.Doubt
	Fork            = contract.Fork
	Peering         = contract.Peering
	Peered          = contract.Peered
	Canary          = contract.Canary
	Mode            = contract.Mode
	Compared        = contract.Compared
	Loss            = contract.Loss
	Check           = contract.Check
	Binding         = contract.Binding
	Bind            = contract.Bind
	Block           = contract.Block
	BlockAsk        = contract.BlockAsk
	Purged          = contract.Purged
	Blocked         = contract.Blocked
	Sender          = contract.Sender
	Rotation        = contract.Rotation
	Token           = contract.Token
	TokenAsk        = contract.TokenAsk
	NewToken        = contract.NewToken
	Change          = contract.Change
)
