package contract

import (
	"encoding/json"
	"net/http"

	"github.com/baton-gateway/baton/bridge/route"
)

// texts are the named kinds of texts of the API.
var texts = []route.Text{
	{Name: "ID", Description: "A ULID.", Pattern: "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"},
	{Name: "DID", MaxLength: 512, Pattern: "^did:[a-z0-9]+:([A-Za-z0-9._:-]|%[0-9A-F]{2})*([A-Za-z0-9._-]|%[0-9A-F]{2})$"},
	{
		Name: "ProvableDID", Description: "A DID with a method that the gateway can resolve.", MaxLength: 512,
		Pattern: "^did:(key|web|plc):([A-Za-z0-9._:-]|%[0-9A-F]{2})*([A-Za-z0-9._-]|%[0-9A-F]{2})$",
	},
	{Name: "Capability", Pattern: "^[A-Za-z0-9._/-]{1,64}$"},
	{Name: "Device", Description: "One of several readers of an inbox.", Pattern: "^[A-Za-z0-9._-]{1,64}$"},
}

// Texts returns the named kinds of texts of the API.
func Texts() []route.Text { return texts }

// The answers of several routes.
var (
	location = route.Header{Name: "Location"}
	replayed = route.Header{Name: "Idempotency-Replayed", Meaning: "`true` if this repeats the first answer."}
	filed    = []route.Success{
		{Status: http.StatusCreated, Meaning: "The step is filed.", Headers: []route.Header{location, replayed}},
		{
			Status: http.StatusAccepted, Meaning: "The step is on disk, and is judged once the key of its signer is available.",
			Headers: []route.Header{location, replayed},
		},
	}
	resent = []route.Header{{Name: "Idempotency-Replayed", Meaning: "`true` if the message was already filed."}}
	done   = []route.Success{{Status: http.StatusNoContent, Meaning: "Done. Repeating the request changes nothing."}}
)

// answered returns status 200 with a meaning.
func answered(meaning string) []route.Success {
	return []route.Success{{Status: http.StatusOK, Meaning: meaning}}
}

// Login.
var (
	CreateChallenge = route.Route[route.Body[ChallengeRequest], Challenge]{
		ID: "createChallenge", Tag: "auth", Method: http.MethodPost, Path: "auth/challenge", Public: true,
		Summary: "Get a challenge to sign", Answers: answered("The challenge, which is valid once."),
	}
	CreateToken = route.Route[route.Body[TokenRequest], Tokens]{
		ID: "createToken", Tag: "auth", Method: http.MethodPost, Path: "auth/token", Public: true,
		Summary: "Exchange a signed challenge for tokens", Answers: answered("Tokens for the DID."),
	}
	RefreshToken = route.Route[route.Body[RefreshRequest], Tokens]{
		ID: "refreshToken", Tag: "auth", Method: http.MethodPost, Path: "auth/refresh", Public: true,
		Summary:     "Exchange a refresh token for new tokens",
		Description: "A refresh token is valid once. A second use ends its session.",
		Answers:     answered("The next tokens of the session."),
	}
	RedeemPairing = route.Route[route.Body[PairingRequest], Tokens]{
		ID: "redeemPairing", Tag: "auth", Method: http.MethodPost, Path: "auth/pairing", Public: true,
		Summary:     "Exchange a pairing code for tokens",
		Description: "A code is valid once. After five wrong codes from an address within a minute, further codes are refused with `rate-limited`.",
		Answers:     answered("Tokens of a new session. It ends 30 days after the last refresh."),
	}
	CreatePairingCode = route.Route[route.None, PairingCode]{
		ID: "createPairingCode", Tag: "auth", Method: http.MethodPost, Path: "pairing-codes",
		Summary:     "Create a code that logs in an agent host as the caller",
		Description: "A person types it on the authorize page of the gateway, or a program sends it to `auth/pairing`.",
		Answers:     answered("The code, which is valid once, for ten minutes. The newest eight codes of a DID are valid."),
	}
	ListSessions = route.Route[route.None, SessionList]{
		ID: "listSessions", Tag: "auth", Method: http.MethodGet, Path: "sessions",
		Summary: "List the sessions of the caller", Answers: answered("All current sessions, newest first."),
	}
	DeleteSession = route.Route[SessionByID, route.None]{
		ID: "deleteSession", Tag: "auth", Method: http.MethodDelete, Path: "sessions/{id}",
		Summary: "End a session of the caller", Description: "Its tokens, streams and leases end at once.",
		Answers: []route.Success{{Status: http.StatusNoContent, Meaning: "The session has ended."}},
	}
)

// Handoffs and their steps.
var (
	ListHandoffs = route.Route[HandoffQuery, HandoffPage]{
		ID: "listHandoffs", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs", Cached: true,
		Summary:     "List handoffs, most recently changed first",
		Description: "The handoffs of the caller; with `channel` or `claimable` also the handoffs of its channels.",
		Answers:     answered("A page. It may be shorter than the limit even if there are more."),
	}
	CreateHandoff = route.Route[OfferOnce, Filed]{
		ID: "createHandoff", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs", Summary: "Offer work", Answers: filed,
	}
	GetHandoff = route.Route[HandoffByID, Handoff]{
		ID: "getHandoff", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs/{id}", Cached: true,
		Summary: "Read one handoff with its log", Answers: answered("The current state of the handoff, and its signed steps."),
	}
	GetPassport = route.Route[ByID, json.RawMessage]{
		ID: "getPassport", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs/{id}/passport", Media: "application/vnd.baton.passport+json",
		Summary: "Read the passport of a handoff",
		Answers: answered("The passport, signed by this gateway; `baton handoff verify` verifies it offline."),
	}
	CreateStep = route.Route[StepOnce, Filed]{
		ID: "createStep", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs/{id}/{verb}", Summary: "Send a step", Answers: filed,
	}
	GetPlace = route.Route[PlaceQuery, Place]{
		ID: "getPlace", Tag: "handoffs", Method: http.MethodGet, Path: "place",
		Summary: "Get the target of an offer, to sign it",
		Answers: answered("The `target` of the document, and the dialect of its tags."),
	}
	ListActions = route.Route[ActionQuery, Actions]{
		ID: "listActions", Tag: "handoffs", Method: http.MethodGet, Path: "actions",
		Summary: "List handoffs in the format of freeq servers", Answers: answered("The open handoffs visible to the caller, most recently changed first."),
	}
	GetAction = route.Route[ByID, ActionLog]{
		ID: "getAction", Tag: "handoffs", Method: http.MethodGet, Path: "actions/{id}",
		Summary: "Read one handoff in the format of freeq servers", Answers: answered("The handoff, unless it is closed, and its log."),
	}
)

// Messages and their senders.
var (
	CreateMessage = route.Route[MessageOnce, Sent]{
		ID: "createMessage", Tag: "messages", Method: http.MethodPost, Path: "messages",
		Summary:     "Write to a participant",
		Description: "Private text, not a step. It waits while its recipient is offline. If it expires, the caller gets a notice.",
		Answers: []route.Success{
			{Status: http.StatusCreated, Meaning: "The message is filed, and its recipient is online.", Headers: resent},
			{
				Status:  http.StatusAccepted,
				Meaning: "The message is filed, and waits for its recipient, or for the home or the registry of its recipient.", Headers: resent,
			},
		},
	}
	ListContacts = route.Route[Paging, ContactPage]{
		ID: "listContacts", Tag: "messages", Method: http.MethodGet, Path: "contacts",
		Summary: "List the senders of messages to the caller",
		Description: "Each sender that has written to the caller, or was allowed or blocked by it. For an agent of the " +
			"AIRC registry, these are its consent decisions there.",
		Answers: answered("A page."),
	}
	PutContact = route.Route[ContactChange, Contact]{
		ID: "putContact", Tag: "messages", Method: http.MethodPut, Path: "contacts/{sender}",
		Summary: "Allow or block a sender",
		Description: "Messages of a blocked sender are refused with `policy-denied`, on every network. Writing to a sender also " +
			"allows it, unless it is blocked. Steps of handoffs are not messages, and are not blocked.",
		Answers: answered("The new decision."),
	}
)

// Inboxes.
var (
	ListInbox = route.Route[InboxQuery, InboxPage]{
		ID: "listInbox", Tag: "inbox", Method: http.MethodGet, Path: "inbox", Summary: "Read new entries, without side effects",
		Answers: answered("The entries after the cursor, oldest first. Empty if none arrived in time."),
	}
	StreamInbox = route.Route[Stream, string]{
		ID: "streamInbox", Tag: "inbox", Method: http.MethodGet, Path: "inbox/stream", Media: "text/event-stream",
		Summary: "Stream new entries, without side effects",
		Description: "Server-sent events of the type `step` with an Entry as data, or of the type `notice` " +
			"with a Notice: first the existing entries after the cursor, oldest first, then new ones. The ID " +
			"is the cursor of the last entry; if there were notices, a dot and the cursor of the last " +
			"notice follow. A client that reconnects with its last ID misses no event and gets none twice. " +
			"A comment every 15 seconds keeps the stream alive. The stream ends when the token expires.",
		Answers: answered("Events, until the client disconnects."),
	}
	OpenInboxSocket = route.Route[Socket, route.None]{
		ID: "openInboxSocket", Tag: "inbox", Method: http.MethodGet, Path: "inbox/socket",
		Summary: "Stream and acknowledge entries over a WebSocket",
		Description: "Each message is a JSON text. The gateway sends SocketTell with `entry` or `notice`: first the " +
			"existing entries after the cursor, oldest first, then new ones. To miss nothing, a client reconnects " +
			"with the cursor of its last entry, a dot, and the cursor of its last notice, or as a device that has " +
			"acknowledged its entries. The client sends SocketAsk with one of `ack`, `nack`, `extend` and `lease`, in " +
			"the format of the routes with these names. Responses come in the order of the requests, with the `id` of " +
			"the request and `done`, `leases` or `problem`. Reading has no side effects; only requests do. The " +
			"connection ends when the token expires (1008) or the gateway stops (1001).",
		Answers: []route.Success{{Status: http.StatusSwitchingProtocols, Meaning: "The connection is now a WebSocket, without a subprotocol."}},
	}
	LeaseInbox = route.Route[LeaseWait, Leases]{
		ID: "leaseInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/lease", Summary: "Lease waiting entries",
		Description: "An entry becomes available again if it is not acknowledged in time.",
		Answers:     answered("The leased entries. Empty if none arrived in time."),
	}
	AckInbox = route.Route[route.Body[Ack], route.None]{
		ID: "ackInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/ack",
		Summary: "Acknowledge one leased entry, or all entries up to a cursor",
		Description: "With `delivery_count`, it acknowledges that lease. Without it, all entries up to the cursor are " +
			"acknowledged, and the cursor becomes the read position of the device.",
		Answers: done,
	}
	NackInbox = route.Route[route.Body[Nack], route.None]{
		ID: "nackInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/nack", Summary: "Return a leased entry", Answers: done,
	}
	ExtendInbox = route.Route[route.Body[Extend], route.None]{
		ID: "extendInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/extend", Summary: "Extend a lease", Answers: done,
	}
	ListNotices = route.Route[Paging, NoticePage]{
		ID: "listNotices", Tag: "notices", Method: http.MethodGet, Path: "notices", Summary: "Read the later outcomes of the caller's steps",
		Description: "If a delivery takes longer than 5 minutes, its step is `delayed`, once, and then `delivered` or " +
			"`undeliverable`. A step refused after its 2xx is `refused`. A webhook is `disabled` if its " +
			"address answered 410. Notices are not steps and need no acknowledgement. They are " +
			"kept as long as dead letters, and read from a cursor. Notices about steps sent over " +
			"another network are delivered there.",
		Answers: answered("A page, oldest first."),
	}
)

// Webhooks.
var (
	ListWebhooks = route.Route[struct{}, WebhookList]{
		ID: "listWebhooks", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks", Summary: "List the webhooks of the caller",
		Answers: answered("All webhooks, oldest first."),
	}
	CreateWebhook = route.Route[route.Body[WebhookRequest], Webhook]{
		ID: "createWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks", Summary: "Register a webhook",
		Description: "The gateway posts the waiting entries of the inbox at once, and later each new entry and notice. Each request " +
			"carries `webhook-id`, `webhook-timestamp` and `webhook-signature` according to " +
			"[Standard Webhooks](https://www.standardwebhooks.com): `v1` is signed with the " +
			"secret, and `v1a` with the private key of `public_key`. The body is a Push. Any 2xx means that the entry is " +
			"delivered, and removes it from the inbox. 410 disables the webhook until it is enabled again, and creates a " +
			"Notice. After any other response, or none, the gateway retries after 1 minute, and then with doubled " +
			"delays of up to 16 hours. Redirects are not followed. " +
			"The address must be `https` and public.",
		Answers: []route.Success{{
			Status: http.StatusCreated, Meaning: "The webhook, with its secret, which is shown only once.", Headers: []route.Header{location},
		}},
	}
	// PushWebhook is a request of the gateway to a webhook.
	PushWebhook = route.Route[route.Body[Push], route.None]{
		ID: "push", Method: http.MethodPost, Path: "{$request.body#/url}", Summary: "A request of the gateway to a webhook",
		Answers: []route.Success{
			{Status: http.StatusNoContent, Meaning: "Accepted."},
			{Status: http.StatusGone, Meaning: "The receiver no longer exists; disable the webhook."},
		},
	}
	GetWebhook = route.Route[ByID, Webhook]{
		ID: "getWebhook", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks/{id}", Summary: "Read one webhook",
		Answers: answered("The current state of the webhook."),
	}
	DeleteWebhook = route.Route[ByID, route.None]{
		ID: "deleteWebhook", Tag: "webhooks", Method: http.MethodDelete, Path: "webhooks/{id}", Summary: "Delete a webhook",
		Description: "Undelivered entries stay in the inbox.", Answers: done,
	}
	EnableWebhook = route.Route[ByID, Webhook]{
		ID: "enableWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks/{id}/enable",
		Summary: "Enable a disabled webhook",
		Description: "The waiting entries of the inbox are posted, as after the registration. The address is checked " +
			"again; if it is no longer public, the response is a conflict. The secret does not change.",
		Answers: answered("The current state of the webhook. A webhook that is not disabled does not change."),
	}
	ListWebhookDeliveries = route.Route[WebhookDeliveries, WebhookDeliveryPage]{
		ID: "listWebhookDeliveries", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks/{id}/deliveries",
		Summary: "List delivered and pending entries of a webhook",
		Answers: answered("A page, newest first; notices come first."),
	}
	RedeliverWebhook = route.Route[WebhookRedelivery, Redelivered]{
		ID: "redeliverWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks/{id}/redeliver",
		Summary: "Post one entry again, or all undelivered entries",
		Answers: []route.Success{{Status: http.StatusAccepted, Meaning: "The entries are queued for this webhook."}},
	}
)

// Agents.
var (
	GetAgent = route.Route[AgentByDID, Agent]{
		ID: "getAgent", Tag: "agents", Method: http.MethodGet, Path: "agents/{did}", Cached: true, Summary: "Read the declaration of an agent",
		Answers: answered("The declaration at this gateway, which may be empty."),
	}
	PutAgent = route.Route[AgentChange, Agent]{
		ID: "putAgent", Tag: "agents", Method: http.MethodPut, Path: "agents/{did}", Summary: "Declare the capabilities of the caller",
		Answers: answered("The new declaration."),
	}
)
