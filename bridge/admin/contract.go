package admin

import (
	"net/http"

	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// The scopes of operator tokens.
const (
	read    = federation.ReadScope
	operate = federation.OperateScope
	admin   = federation.AdminScope
)

// Statuses of answers other than 200.
var (
	made        = []route.Success{{Status: http.StatusCreated, Meaning: "Made."}}
	madeOrWaits = []route.Success{made[0], {Status: http.StatusAccepted, Meaning: "The step waits for a key or for a ruling of its home."}}
)

// Handoffs and their steps.
var (
	ListHandoffs = route.Route[HandoffQuery, Page[Handoff]]{
		ID: "listHandoffs", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs", Scope: read,
		Summary: "List handoffs, most recently changed first",
	}
	OfferHandoff = route.Route[route.Body[Ask], Filed]{
		ID: "offerHandoff", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs", Scope: operate,
		Summary: "Offer a handoff", Answers: madeOrWaits,
	}
	GetHandoff = route.Route[IDPage, Handoff]{
		ID: "getHandoff", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs/{id}", Scope: read,
		Summary: "Read one handoff and a page of its steps",
	}
	GetPassport = route.Route[ByID, route.File]{
		ID: "getPassport", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs/{id}/passport", Scope: read,
		Summary: "Read the passport of a handoff", Media: "application/vnd.baton.passport+json",
	}
	TakeStep = route.Route[StepOf, Filed]{
		ID: "takeStep", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs/{id}/{verb}", Scope: operate,
		Summary: "Send a step: accept, decline, claim, progress, complete, fail or cancel", Answers: madeOrWaits, Slow: true,
	}
	EndOrphan = route.Route[ActOnID, Handoff]{
		ID: "endOrphan", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs/{id}/orphan/end", Scope: admin,
		Summary: "End an orphaned handoff at this gateway",
	}
	ExplainEvent = route.Route[ByID, Explanation]{
		ID: "explainEvent", Tag: "handoffs", Method: http.MethodGet, Path: "events/{id}/explain", Scope: read,
		Summary: "Explain one step: its verdict, its route and the next action",
	}
	ExplainDID = route.Route[ByDID, ExplainedDID]{
		ID: "explainDID", Tag: "handoffs", Method: http.MethodGet, Path: "dids/{did}/explain", Scope: read,
		Summary: "Explain the document of a DID: its keys, and its unusable keys",
	}
	GetPlace = route.Route[PlaceQuery, OfferVenue]{
		ID: "getPlace", Tag: "handoffs", Method: http.MethodGet, Path: "place", Scope: read,
		Summary: "Get the target of an offer",
	}
	StoreBlob = route.Route[Blob, Stored]{
		ID: "storeBlob", Tag: "handoffs", Method: http.MethodPost, Path: "blobs", Scope: operate,
		Summary: "Store a context for steps to refer to", Answers: made,
	}
	Erase = route.Route[route.Body[EraseAsk], Erased]{
		ID: "erase", Tag: "handoffs", Method: http.MethodPost, Path: "erasures", Scope: admin,
		Summary: "Erase the content of the handoffs and messages of a DID", Slow: true,
		Answers: []route.Success{{Status: http.StatusOK, Meaning: "Done, or a dry run."}},
	}
)

// Inboxes and participants.
var (
	ListInbox = route.Route[InboxQuery, Page[Arrived]]{
		ID: "listInbox", Tag: "inboxes", Method: http.MethodGet, Path: "inboxes/{did}", Scope: read,
		Summary: "List the inbox of a DID, without side effects",
	}
	AckInbox = route.Route[InboxAck, Ack]{
		ID: "ackInbox", Tag: "inboxes", Method: http.MethodPost, Path: "inboxes/{did}/ack", Scope: operate,
		Summary: "Acknowledge the inbox of a DID up to a cursor",
	}
	MoveInbox = route.Route[InboxMove, Moved]{
		ID: "moveInbox", Tag: "inboxes", Method: http.MethodPost, Path: "inboxes/{did}/move", Scope: admin,
		Summary: "Move the mailbox of a DID to another home",
	}
	// CallParticipant is served by [participant.AccountServer], which reads the request itself.
	CallParticipant = route.Route[ParticipantCall, Called]{
		ID: "callParticipant", Tag: "participants", Method: http.MethodPost, Path: "participants/{did}/{operation}", Scope: operate,
		Summary: "Act as a participant, as the command mcp does", Slow: true,
		Answers: []route.Success{{Status: http.StatusOK, Meaning: "Answered or refused."}},
	}
)

// Links and deliveries.
var (
	ListLinks = route.Route[Watching, Page[Link]]{
		ID: "listLinks", Tag: "links", Method: http.MethodGet, Path: "links", Scope: read,
		Summary: "List links",
	}
	GetLink = route.Route[ByName, Link]{
		ID: "getLink", Tag: "links", Method: http.MethodGet, Path: "links/{name}", Scope: read,
		Summary: "Read one link",
	}
	ChangeLink = route.Route[LinkChange, Acted]{
		ID: "changeLink", Tag: "links", Method: http.MethodPost, Path: "links/{name}/{verb}", Scope: operate,
		Summary: "Reconnect a link now, disconnect it (down), or connect it again (up)",
	}
	CountTroubles = route.Route[route.None, Troubles]{
		ID: "countTroubles", Tag: "links", Method: http.MethodGet, Path: "troubles", Scope: read,
		Summary: "Count failed links, pending deliveries and dead letters",
	}
	ListFeeds = route.Route[FeedQuery, Page[Waiting]]{
		ID: "listFeeds", Tag: "feeds", Method: http.MethodGet, Path: "feeds", Scope: read,
		Summary: "List pending deliveries",
	}
	ListFeedShapes = route.Route[Paging, Page[Shape]]{
		ID: "listFeedShapes", Tag: "feeds", Method: http.MethodGet, Path: "feeds/shape", Scope: read,
		Summary: "Count pending deliveries by destination and age",
	}
	ChangeFeed = route.Route[FeedChange, Acted]{
		ID: "changeFeed", Tag: "feeds", Method: http.MethodPost, Path: "feeds/{id}/{verb}", Scope: operate,
		Summary: `Hold or release a destination; retry, fail or drop the deliveries of an event, or with the ID "all" every delivery of a link, a peer or an age`,
	}
	ListDead = route.Route[DeadQuery, Page[DeadLetter]]{
		ID: "listDead", Tag: "dead", Method: http.MethodGet, Path: "dead", Scope: read,
		Summary: "List dead letters, newest first",
	}
	GetDead = route.Route[ByID, DeadLetter]{
		ID: "getDead", Tag: "dead", Method: http.MethodGet, Path: "dead/{id}", Scope: read,
		Summary: "Read one dead letter with its attempts",
	}
	SettleDead = route.Route[DeadChange, Acted]{
		ID: "settleDead", Tag: "dead", Method: http.MethodPost, Path: "dead/{id}/{verb}", Scope: operate,
		Summary: `Replay or drop one dead letter, or with the ID "all" every dead letter, optionally limited to a cause or a peer`,
	}
	ListHeld = route.Route[HeldQuery, Page[Held]]{
		ID: "listHeld", Tag: "held", Method: http.MethodGet, Path: "held", Scope: read,
		Summary: "List messages from unverified senders of other registries that wait for consent, oldest first",
	}
	SettleHeld = route.Route[IDChange, Acted]{
		ID: "settleHeld", Tag: "held", Method: http.MethodPost, Path: "held/{id}/{verb}", Scope: operate,
		Summary: "Allow or drop one message of an unverified sender; the consent of its recipient does not change",
	}
	ListWebhooks = route.Route[WebhookQuery, Page[Webhook]]{
		ID: "listWebhooks", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks", Scope: read,
		Summary: "List webhooks",
	}
	GetWebhook = route.Route[IDPage, Webhook]{
		ID: "getWebhook", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks/{id}", Scope: read,
		Summary: "Read one webhook and a page of its deliveries",
	}
	ChangeWebhook = route.Route[WebhookChange, Acted]{
		ID: "changeWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks/{id}/{verb}", Scope: operate,
		Summary: "Redeliver to a webhook, or enable it",
	}
)

// Peers, names and sources.
var (
	ListPeers = route.Route[Paging, Page[Peer]]{
		ID: "listPeers", Tag: "peers", Method: http.MethodGet, Path: "peers", Scope: read,
		Summary: "List other registries and homes",
	}
	AddPeer = route.Route[route.Body[Peering], Peered]{
		ID: "addPeer", Tag: "peers", Method: http.MethodPost, Path: "peers", Scope: admin,
		Summary: "Check another home, add it, and send it a canary",
	}
	GetPeer = route.Route[ByName, Peer]{
		ID: "getPeer", Tag: "peers", Method: http.MethodGet, Path: "peers/{name}", Scope: read,
		Summary: "Read one peer",
	}
	RemovePeer = route.Route[PeerRemoval, Peer]{
		ID: "removePeer", Tag: "peers", Method: http.MethodDelete, Path: "peers/{name}", Scope: admin,
		Summary: "Remove a home added by an operator",
	}
	SetPeerMode = route.Route[PeerMode, Peer]{
		ID: "setPeerMode", Tag: "peers", Method: http.MethodPost, Path: "peers/{name}/mode", Scope: admin,
		Summary: "Allow, limit, hold or block a peer",
	}
	ComparePeer = route.Route[ActOnName, Compared]{
		ID: "comparePeer", Tag: "peers", Method: http.MethodPost, Path: "peers/{name}/compare", Scope: operate,
		Summary: "Compare histories with another home now, and send its missing steps", Slow: true,
	}
	CheckRelay = route.Route[Paging, Page[Check]]{
		ID: "checkRelay", Tag: "peers", Method: http.MethodGet, Path: "relay", Scope: read,
		Summary: "Check the hub",
	}
	ListBindings = route.Route[Paging, Page[Binding]]{
		ID: "listBindings", Tag: "bindings", Method: http.MethodGet, Path: "bindings", Scope: read,
		Summary: "List the bindings of names to DIDs",
	}
	BindName = route.Route[NameBinding, Binding]{
		ID: "bindName", Tag: "bindings", Method: http.MethodPut, Path: "bindings/{network}/{name...}", Scope: admin,
		Summary: "Bind a name to a DID",
	}
	UnbindName = route.Route[NameUnbinding, Empty]{
		ID: "unbindName", Tag: "bindings", Method: http.MethodDelete, Path: "bindings/{network}/{name...}", Scope: admin,
		Summary: "Remove a binding",
	}
	ReleaseHandle = route.Route[ActOnHandle, Acted]{
		ID: "releaseHandle", Tag: "handles", Method: http.MethodPost, Path: "handles/{handle}/release", Scope: admin,
		Summary: "Release a handle of the AIRC registry: end its keys, sessions and webhooks, and allow a new registration",
	}
	ListBlocks = route.Route[Paging, Page[Block]]{
		ID: "listBlocks", Tag: "blocks", Method: http.MethodGet, Path: "blocks", Scope: read,
		Summary: "List blocked sources",
	}
	AddBlock = route.Route[route.Body[BlockAsk], Blocked]{
		ID: "block", Tag: "blocks", Method: http.MethodPost, Path: "blocks", Scope: operate,
		Summary: "Block a source; with purge, also end its handoffs and deliveries",
		Answers: []route.Success{{Status: http.StatusOK, Meaning: "A dry run."}, made[0]},
	}
	Unblock = route.Route[Unblocking, Acted]{
		ID: "unblock", Tag: "blocks", Method: http.MethodDelete, Path: "blocks/{what...}", Scope: operate,
		Summary: "Remove a block",
	}
	ListTop = route.Route[TopQuery, Page[Sender]]{
		ID: "listTop", Tag: "blocks", Method: http.MethodGet, Path: "top", Scope: read,
		Summary: "List the senders with the most steps",
	}
)

// The gateway itself.
var (
	GetStatus = route.Route[route.None, Status]{
		ID: "getStatus", Tag: "doctor", Method: http.MethodGet, Path: "status", Scope: read,
		Summary: "Read the overview: readiness, links, pending deliveries, rates, the last checks and samples of the last day",
	}
	Examine = route.Route[struct{}, Page[Diagnosis]]{
		ID: "examine", Tag: "doctor", Method: http.MethodGet, Path: "doctor", Scope: read,
		Summary: "Check the gateway, its links and its peers",
	}
	ExamineOnline = route.Route[struct{}, Page[Diagnosis]]{
		ID: "examineOnline", Tag: "doctor", Method: http.MethodPost, Path: "doctor", Scope: operate,
		Summary: "Check the gateway, its links and its peers, and offer a canary to each peer",
	}
	AcceptClock = route.Route[route.Body[Act], Acted]{
		ID: "acceptClock", Tag: "doctor", Method: http.MethodPost, Path: "clock/accept", Scope: admin,
		Summary: "Confirm the clock of the machine, so that handoffs and keys expire again",
	}
	GetPolicy = route.Route[struct{}, Policy]{
		ID: "getPolicy", Tag: "policy", Method: http.MethodGet, Path: "policy", Scope: read,
		Summary: "Read the current rules and limits, with their lines in the configuration",
	}
	ReloadConfig = route.Route[route.Body[Act], Reloaded]{
		ID: "reloadConfig", Tag: "policy", Method: http.MethodPost, Path: "config/reload", Scope: admin,
		Summary: "Reload the configuration, and apply the settings that need no restart",
	}
	SetLogLevel = route.Route[route.Body[LevelAsk], LogLevels]{
		ID: "setLogLevel", Tag: "policy", Method: http.MethodPost, Path: "log/level", Scope: operate,
		Summary: "Change the log level, until the next start",
	}
	ListKeys = route.Route[Paging, Page[Key]]{
		ID: "listKeys", Tag: "keys", Method: http.MethodGet, Path: "keys", Scope: read,
		Summary: "List the public parts of the keys of the gateway, including rotated keys",
	}
	RotateKey = route.Route[KeyRotation, Key]{
		ID: "rotateKey", Tag: "keys", Method: http.MethodPost, Path: "keys/{name}/rotate", Scope: admin,
		Summary: "Replace a key of the gateway",
	}
	// Backup needs the scope admin, because the keys are in the file.
	Backup = route.Route[struct{}, route.File]{
		ID: "backup", Tag: "keys", Method: http.MethodPost, Path: "backup", Scope: admin,
		Summary: "Copy the record and the keys", Media: "application/x-tar", Slow: true,
	}
	ListTokens = route.Route[Paging, Page[Token]]{
		ID: "listTokens", Tag: "tokens", Method: http.MethodGet, Path: "tokens", Scope: read,
		Summary: "List operator tokens, without their secrets",
	}
	CreateToken = route.Route[route.Body[TokenAsk], NewToken]{
		ID: "createToken", Tag: "tokens", Method: http.MethodPost, Path: "tokens", Scope: admin,
		Summary: "Create an operator token", Answers: made,
	}
	RevokeToken = route.Route[ActOnName, Acted]{
		ID: "revokeToken", Tag: "tokens", Method: http.MethodPost, Path: "tokens/{name}/revoke", Scope: admin,
		Summary: "Revoke an operator token",
	}
	ListSessions = route.Route[SessionQuery, Page[Session]]{
		ID: "listSessions", Tag: "tokens", Method: http.MethodGet, Path: "sessions", Scope: read,
		Summary: "List the sessions of participants",
	}
	EndSessions = route.Route[SessionsEnd, Acted]{
		ID: "endSessions", Tag: "tokens", Method: http.MethodPost, Path: "sessions/{did}/end", Scope: admin,
		Summary: "End one session, or all sessions of a participant and delete its password",
	}
	CreatePairingCode = route.Route[route.Body[PairAsk], PairingCode]{
		ID: "createPairingCode", Tag: "tokens", Method: http.MethodPost, Path: "pairing-codes", Scope: admin,
		Summary: "Create a code that logs in an agent host as a participant", Answers: made,
	}
	ListAudit = route.Route[AuditQuery, Page[Change]]{
		ID: "listAudit", Tag: "audit", Method: http.MethodGet, Path: "audit", Scope: read,
		Summary: "List changes by operators, newest first",
	}
)
