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
		Name: "ProvableDID", Description: "One whose keys can be found out here.", MaxLength: 512,
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
	replayed = route.Header{Name: "Idempotency-Replayed", Meaning: "`true` where this is the answer of the first time."}
	filed    = []route.Success{
		{Status: http.StatusCreated, Meaning: "The step is filed.", Headers: []route.Header{location, replayed}},
		{
			Status: http.StatusAccepted, Meaning: "The step is on disk, and is judged once the key of its signer can be had.",
			Headers: []route.Header{location, replayed},
		},
	}
	resent = []route.Header{{Name: "Idempotency-Replayed", Meaning: "`true` where the message was filed before."}}
	done   = []route.Success{{Status: http.StatusNoContent, Meaning: "Done. The same again changes nothing."}}
)

// answered returns status 200 with a meaning.
func answered(meaning string) []route.Success {
	return []route.Success{{Status: http.StatusOK, Meaning: meaning}}
}

// Login.
var (
	CreateChallenge = route.Route[route.Body[ChallengeRequest], Challenge]{
		ID: "createChallenge", Tag: "auth", Method: http.MethodPost, Path: "auth/challenge", Public: true,
		Summary: "Get something to sign", Answers: answered("The challenge, which is good once."),
	}
	CreateToken = route.Route[route.Body[TokenRequest], Tokens]{
		ID: "createToken", Tag: "auth", Method: http.MethodPost, Path: "auth/token", Public: true,
		Summary: "Exchange a signed challenge for tokens", Answers: answered("Tokens for the DID."),
	}
	RefreshToken = route.Route[route.Body[RefreshRequest], Tokens]{
		ID: "refreshToken", Tag: "auth", Method: http.MethodPost, Path: "auth/refresh", Public: true,
		Summary:     "Exchange a refresh token for the next ones",
		Description: "A refresh token is good once. One that comes twice ends its session.",
		Answers:     answered("The next tokens of the session."),
	}
	RedeemPairing = route.Route[route.Body[PairingRequest], Tokens]{
		ID: "redeemPairing", Tag: "auth", Method: http.MethodPost, Path: "auth/pairing", Public: true,
		Summary:     "Exchange a pairing code for tokens",
		Description: "A code is valid once. After five wrong codes from an address in a minute, more are refused with `rate-limited`.",
		Answers:     answered("Tokens of a new session. It ends 30 days after the last refresh."),
	}
	CreatePairingCode = route.Route[route.None, PairingCode]{
		ID: "createPairingCode", Tag: "auth", Method: http.MethodPost, Path: "pairing-codes",
		Summary:     "Make a code that logs in an agent host as the caller",
		Description: "A person types it on the authorize page of the gateway, or a program sends it to `auth/pairing`.",
		Answers:     answered("The code, which is valid once, for ten minutes. The newest eight codes of a DID are valid."),
	}
	ListSessions = route.Route[route.None, SessionList]{
		ID: "listSessions", Tag: "auth", Method: http.MethodGet, Path: "sessions",
		Summary: "List the sessions of the caller", Answers: answered("All live sessions, the newest first."),
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
		Summary:     "List handoffs, the newest movement first",
		Description: "The handoffs of the caller; with `channel` or `claimable` also the handoffs of its channels.",
		Answers:     answered("A page. It may be shorter than asked for while there are more."),
	}
	CreateHandoff = route.Route[OfferOnce, Filed]{
		ID: "createHandoff", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs", Summary: "Offer work", Answers: filed,
	}
	GetHandoff = route.Route[HandoffByID, Handoff]{
		ID: "getHandoff", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs/{id}", Cached: true,
		Summary: "Read one handoff with its log", Answers: answered("The handoff as it stands, and its steps as they were signed."),
	}
	GetPassport = route.Route[ByID, json.RawMessage]{
		ID: "getPassport", Tag: "handoffs", Method: http.MethodGet, Path: "handoffs/{id}/passport", Media: "application/vnd.baton.passport+json",
		Summary: "Read the file that proves a handoff",
		Answers: answered("The passport, signed by this gateway; `baton handoff verify` checks it offline."),
	}
	CreateStep = route.Route[StepOnce, Filed]{
		ID: "createStep", Tag: "handoffs", Method: http.MethodPost, Path: "handoffs/{id}/{verb}", Summary: "Take a step", Answers: filed,
	}
	GetPlace = route.Route[PlaceQuery, Place]{
		ID: "getPlace", Tag: "handoffs", Method: http.MethodGet, Path: "place",
		Summary: "Find out where an offer would be written, to sign it",
		Answers: answered("The `target` of the document, and the tags to write it in."),
	}
	ListActions = route.Route[ActionQuery, Actions]{
		ID: "listActions", Tag: "handoffs", Method: http.MethodGet, Path: "actions",
		Summary: "List handoffs as freeq servers do", Answers: answered("The open handoffs that the caller may see, the newest change first."),
	}
	GetAction = route.Route[ByID, ActionLog]{
		ID: "getAction", Tag: "handoffs", Method: http.MethodGet, Path: "actions/{id}",
		Summary: "Read one handoff as freeq servers show it", Answers: answered("The handoff while it is not over, and its log."),
	}
)

// Messages and their senders.
var (
	CreateMessage = route.Route[MessageOnce, Sent]{
		ID: "createMessage", Tag: "messages", Method: http.MethodPost, Path: "messages",
		Summary:     "Write to a participant",
		Description: "Private text, which is no step. It waits while its recipient is away, and a notice tells when it expires.",
		Answers: []route.Success{
			{Status: http.StatusCreated, Meaning: "The message is filed, and its recipient is there.", Headers: resent},
			{
				Status:  http.StatusAccepted,
				Meaning: "The message is filed, and waits for its recipient, or for the home or the registry of its recipient.", Headers: resent,
			},
		},
	}
	ListContacts = route.Route[Paging, ContactPage]{
		ID: "listContacts", Tag: "messages", Method: http.MethodGet, Path: "contacts",
		Summary: "List the senders that the caller knows",
		Description: "Each sender that wrote to the caller, or that it allowed or blocked. Where the caller is an agent of the " +
			"AIRC registry, these are the decisions that it makes there.",
		Answers: answered("A page."),
	}
	PutContact = route.Route[ContactChange, Contact]{
		ID: "putContact", Tag: "messages", Method: http.MethodPut, Path: "contacts/{sender}",
		Summary: "Allow or block a sender",
		Description: "Messages of a blocked sender are refused with `policy-denied`, on every network. A caller that writes to " +
			"a sender allows it, unless it blocked that sender. Steps of handoffs are not messages, and come all the same.",
		Answers: answered("As decided from now on."),
	}
)

// Inboxes.
var (
	ListInbox = route.Route[InboxQuery, InboxPage]{
		ID: "listInbox", Tag: "inbox", Method: http.MethodGet, Path: "inbox", Summary: "Read what arrived, and change nothing",
		Answers: answered("What arrived after the cursor, oldest first. Empty where nothing came in time."),
	}
	StreamInbox = route.Route[Stream, string]{
		ID: "streamInbox", Tag: "inbox", Method: http.MethodGet, Path: "inbox/stream", Media: "text/event-stream",
		Summary: "Watch what arrives, and change nothing",
		Description: "Server-sent events: of the type `step` with an Entry as its data, or of the type `notice` " +
			"with a Notice; first what is there after the cursor, oldest first, then what comes. The id " +
			"is the cursor of the last entry, and where there were notices a dot and the cursor of the " +
			"last of them. A client that comes again with the id it saw last misses nothing and sees " +
			"nothing twice. " +
			"A comment every 15 seconds says that the stream is there. It ends with the token.",
		Answers: answered("Events, for as long as the client stays."),
	}
	OpenInboxSocket = route.Route[Socket, route.None]{
		ID: "openInboxSocket", Tag: "inbox", Method: http.MethodGet, Path: "inbox/socket",
		Summary: "Watch what arrives over a WebSocket, and acknowledge it there",
		Description: "Each message is JSON in text. The gateway sends SocketTell: with `entry` or `notice` what " +
			"is there after the cursor, oldest first, then what comes; a client that comes again with " +
			"the cursor of the entry it saw last, a dot, and that of the notice it saw last misses " +
			"nothing, nor does one that comes as a device that acknowledged up to there. The " +
			"client sends SocketAsk: one of `ack`, `nack`, `extend` and `lease`, as the paths of " +
			"these names take it, and is answered in the order of what it asked, with the `id` that " +
			"it chose and `done`, `leases` or `problem`. Looking changes nothing; only what is " +
			"asked does. It ends with the token (1008) and with the gateway (1001).",
		Answers: []route.Success{{Status: http.StatusSwitchingProtocols, Meaning: "From here on it is a WebSocket, without a subprotocol."}},
	}
	LeaseInbox = route.Route[LeaseWait, Leases]{
		ID: "leaseInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/lease", Summary: "Take what waits, for a while",
		Description: "What is not acknowledged in time is given out again.",
		Answers:     answered("What this device has now. Empty where nothing came in time."),
	}
	AckInbox = route.Route[route.Body[Ack], route.None]{
		ID: "ackInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/ack",
		Summary: "End the waiting of one leased entry, or of all up to a cursor",
		Description: "With `delivery_count` it acknowledges that lease. Without, the device has read its " +
			"inbox up to the cursor: that is where it goes on, and nothing up to there waits.",
		Answers: done,
	}
	NackInbox = route.Route[route.Body[Nack], route.None]{
		ID: "nackInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/nack", Summary: "Put a leased entry back", Answers: done,
	}
	ExtendInbox = route.Route[route.Body[Extend], route.None]{
		ID: "extendInbox", Tag: "inbox", Method: http.MethodPost, Path: "inbox/extend", Summary: "Keep a leased entry longer", Answers: done,
	}
	ListNotices = route.Route[Paging, NoticePage]{
		ID: "listNotices", Tag: "notices", Method: http.MethodGet, Path: "notices", Summary: "What became later of the steps of the caller",
		Description: "A step that is under way for 5 minutes is `delayed`, once, and then `delivered` or " +
			"`undeliverable`; one that was refused later than its 2xx is `refused`. A webhook whose " +
			"address answered 410 is `disabled`. Notices are no steps and need no acknowledgement: they are " +
			"kept for as long as dead letters, and read from a cursor on. Of steps that came by " +
			"another network than this one it is told there.",
		Answers: answered("A page, oldest first."),
	}
)

// Webhooks.
var (
	ListWebhooks = route.Route[struct{}, WebhookList]{
		ID: "listWebhooks", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks", Summary: "List the webhooks of the caller",
		Answers: answered("All of them, the oldest first."),
	}
	CreateWebhook = route.Route[route.Body[WebhookRequest], Webhook]{
		ID: "createWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks", Summary: "Have what arrives posted to an address",
		Description: "What waits in the inbox is posted at once, and what arrives from then on, notices among " +
			"it. Each request " +
			"carries `webhook-id`, `webhook-timestamp` and `webhook-signature` as " +
			"[Standard Webhooks](https://www.standardwebhooks.com) has them: `v1` is signed with the " +
			"secret, `v1a` with a key whose public half is `public_key`. Its body is a Push. Any 2xx is a " +
			"delivery, and ends the waiting in the inbox. 410 disables the webhook, of which a Notice " +
			"tells, until it is enabled again. Whatever else comes, or nothing, is tried again after " +
			"1 minute, then after twice as long each time, up to 16 hours. A redirect is not followed. " +
			"The address must be `https` and public.",
		Answers: []route.Success{{
			Status: http.StatusCreated, Meaning: "The webhook, with the secret that is told this once.", Headers: []route.Header{location},
		}},
	}
	// PushWebhook is a request of the gateway to a webhook.
	PushWebhook = route.Route[route.Body[Push], route.None]{
		ID: "push", Method: http.MethodPost, Path: "{$request.body#/url}", Summary: "What the gateway posts to the address",
		Answers: []route.Success{
			{Status: http.StatusNoContent, Meaning: "It is taken."},
			{Status: http.StatusGone, Meaning: "The receiver is gone; disable the webhook."},
		},
	}
	GetWebhook = route.Route[ByID, Webhook]{
		ID: "getWebhook", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks/{id}", Summary: "Read one webhook",
		Answers: answered("The webhook as it stands."),
	}
	DeleteWebhook = route.Route[ByID, route.None]{
		ID: "deleteWebhook", Tag: "webhooks", Method: http.MethodDelete, Path: "webhooks/{id}", Summary: "End a webhook",
		Description: "What it was not given yet stays in the inbox.", Answers: done,
	}
	EnableWebhook = route.Route[ByID, Webhook]{
		ID: "enableWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks/{id}/enable",
		Summary: "Have a webhook called again that was disabled",
		Description: "What waits in the inbox is posted, as after the registration. The address is checked " +
			"again; one that is not public any more is a conflict. The secret stays as it was.",
		Answers: answered("The webhook as it stands. One that is not disabled stays as it is."),
	}
	ListWebhookDeliveries = route.Route[WebhookDeliveries, WebhookDeliveryPage]{
		ID: "listWebhookDeliveries", Tag: "webhooks", Method: http.MethodGet, Path: "webhooks/{id}/deliveries",
		Summary: "List what a webhook was given, and what it waits for",
		Answers: answered("A page, the newest first, and notices before all else."),
	}
	RedeliverWebhook = route.Route[WebhookRedelivery, Redelivered]{
		ID: "redeliverWebhook", Tag: "webhooks", Method: http.MethodPost, Path: "webhooks/{id}/redeliver",
		Summary: "Post something again, or all that was not delivered",
		Answers: []route.Success{{Status: http.StatusAccepted, Meaning: "They are posted as soon as it is the turn of this webhook."}},
	}
)

// Agents.
var (
	GetAgent = route.Route[AgentByDID, Agent]{
		ID: "getAgent", Tag: "agents", Method: http.MethodGet, Path: "agents/{did}", Cached: true, Summary: "Read what an agent declared",
		Answers: answered("What it declared here. Nothing is an answer."),
	}
	PutAgent = route.Route[AgentChange, Agent]{
		ID: "putAgent", Tag: "agents", Method: http.MethodPut, Path: "agents/{did}", Summary: "Declare what the caller can do",
		Answers: answered("As declared from now on."),
	}
)
