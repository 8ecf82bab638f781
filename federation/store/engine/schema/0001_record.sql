-- Version 1 of the record in an SQLite file.
--
-- Identifiers are kept as canonical text, so that an operator can read the record with any
-- SQLite shell. Times are unix nanoseconds, 0 for none. Digests are the 32 bytes of a
-- SHA-256. Truth values are 0 and 1.

-- "Btn3": tells the record from any other SQLite file, and from the records of programs
-- older than this schema ("Btn1").
PRAGMA application_id = 0x42746e33;

-- Handoffs and their events -------------------------------------------------------------

CREATE TABLE handoff (
    id      TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL, -- compare-and-set is on this column
    view    TEXT    NOT NULL, -- JSON; can be rebuilt from the events
    head    BLOB    NOT NULL, -- link after the newest event, see event.prev
    -- Members of the view by which handoffs are searched:
    state   TEXT    NOT NULL,
    offerer TEXT    NOT NULL,
    moved   INTEGER NOT NULL, -- when its newest step was filed
    over    INTEGER NOT NULL,
    clock   TEXT    NOT NULL, -- what ends the handoff if no step does; '' for nothing
    since   INTEGER NOT NULL   -- when that clock started
) STRICT, WITHOUT ROWID;

CREATE INDEX handoff_clock ON handoff (clock, since) WHERE clock <> '';
CREATE INDEX handoff_unfinished ON handoff (offerer) WHERE over = 0;
CREATE INDEX handoff_suffix ON handoff (substr(id, -6)); -- people name a handoff by the end of its id

-- Steps and receipts. A receipt is in no log: its version, prev and place are NULL.
CREATE TABLE event (
    seq     INTEGER PRIMARY KEY, -- order of filing at this gateway
    handoff TEXT    NOT NULL,
    version INTEGER,             -- position in the log of the handoff, from 1
    signer  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    digest  BLOB    NOT NULL,    -- two arrivals with one digest are one step
    prev    BLOB,                -- SHA-256 of the event before: its prev, then the SHA-256 of its document
    message TEXT,                -- id of the message that carried it
    state   TEXT    NOT NULL,    -- of the handoff after it
    filed   INTEGER NOT NULL,
    body    TEXT    NOT NULL,    -- JSON, without the bytes of the evidence
    place   TEXT,                -- a venue; after the name of its link and a space where the venue is on one link only
    said    INTEGER NOT NULL, -- when the signer sent it, for the history of a place
    UNIQUE (handoff, version),
    UNIQUE (id, signer),         -- the id first: references come without a signer
    UNIQUE (signer, digest)
) STRICT;

CREATE INDEX event_message ON event (message) WHERE message IS NOT NULL;
CREATE INDEX event_place ON event (place, said) WHERE place IS NOT NULL;

-- Original bytes behind vouched steps. A row is deleted with the handoff that named it first.
CREATE TABLE evidence (
    digest  BLOB NOT NULL PRIMARY KEY, -- of bytes
    bytes   BLOB NOT NULL,
    handoff TEXT
) STRICT;

CREATE INDEX evidence_handoff ON evidence (handoff) WHERE handoff IS NOT NULL;

-- Handoffs by participant and by state, the newest movement first. The DID '' is a
-- participant of all of them. Triggers keep the rows.
CREATE TABLE party (
    did     TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    moved   INTEGER NOT NULL,
    handoff TEXT    NOT NULL,
    PRIMARY KEY (did, state, moved, handoff)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER handoff_opened AFTER INSERT ON handoff BEGIN
    INSERT INTO party (did, state, moved, handoff) VALUES
        ('', NEW.state, NEW.moved, NEW.id),
        (NEW.offerer, NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'offeree', ''), NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'assignee', ''), NEW.state, NEW.moved, NEW.id)
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER handoff_pruned AFTER DELETE ON handoff BEGIN
    DELETE FROM party WHERE state = OLD.state AND moved = OLD.moved AND handoff = OLD.id
        AND did IN ('', OLD.offerer, OLD.view ->> 'offeree', OLD.view ->> 'assignee');
END;

CREATE TRIGGER handoff_moved AFTER UPDATE ON handoff BEGIN
    DELETE FROM party WHERE state = OLD.state AND moved = OLD.moved AND handoff = OLD.id
        AND did IN ('', OLD.offerer, OLD.view ->> 'offeree', OLD.view ->> 'assignee');
    INSERT INTO party (did, state, moved, handoff) VALUES
        ('', NEW.state, NEW.moved, NEW.id),
        (NEW.offerer, NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'offeree', ''), NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'assignee', ''), NEW.state, NEW.moved, NEW.id)
    ON CONFLICT DO NOTHING;
END;

-- Tombstones: the ids and digests of pruned events, so that none is filed a second time.
CREATE TABLE tombstone (
    id      TEXT    NOT NULL,
    signer  TEXT    NOT NULL,
    digest  BLOB    NOT NULL, -- as in event
    handoff TEXT    NOT NULL,
    gone    INTEGER NOT NULL, -- when the event was pruned
    PRIMARY KEY (id, signer)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstone_digest ON tombstone (signer, digest);
CREATE INDEX tombstone_gone ON tombstone (gone);

-- Offers without a deadline that their agent did not see: they wait for consent, or the
-- agent deleted them.
CREATE TABLE unseen (
    handoff TEXT    NOT NULL PRIMARY KEY,
    opened  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX unseen_opened ON unseen (opened);

CREATE TRIGGER unseen_answered AFTER UPDATE OF clock ON handoff WHEN OLD.clock = 'unanswered' AND NEW.clock <> 'unanswered' BEGIN
    DELETE FROM unseen WHERE handoff = NEW.id;
END;

-- The DIDs that the record met within the last hour.
CREATE TABLE newcomer (
    did TEXT    NOT NULL PRIMARY KEY,
    met INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX newcomer_met ON newcomer (met);

-- The size of the record, measured at most once a minute: the rows of the last hour and the
-- one before them.
CREATE TABLE size (
    at    INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;

-- Responses to requests that carried an idempotency key.
CREATE TABLE answer (
    did    TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    digest BLOB    NOT NULL, -- of the request
    event  TEXT    NOT NULL, -- id of the step
    status INTEGER NOT NULL, -- 0 until the request has its response
    body   BLOB,
    at     INTEGER NOT NULL,
    PRIMARY KEY (did, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX answer_at ON answer (at);

-- Content that steps refer to. A blob that a handoff claims is deleted with the last such
-- handoff, any other when it expires.
CREATE TABLE blob (
    n          INTEGER PRIMARY KEY,
    capability TEXT    NOT NULL UNIQUE,
    digest     BLOB    NOT NULL,
    owner      TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    stored     INTEGER NOT NULL,
    expires    INTEGER NOT NULL, -- 0 once it is claimed
    content    BLOB    NOT NULL
) STRICT;

CREATE INDEX blob_owner ON blob (owner, size);
CREATE INDEX blob_expires ON blob (expires) WHERE expires <> 0;

CREATE TABLE blob_claim (
    handoff    TEXT NOT NULL,
    capability TEXT NOT NULL,
    PRIMARY KEY (handoff, capability)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_claim_capability ON blob_claim (capability);

-- Inboxes --------------------------------------------------------------------------------

-- Arrivals of each DID, in the order of their events. Entries are numbered from 1, and one
-- device at a time may lease an entry that waits.
CREATE TABLE inbox (
    did      TEXT    NOT NULL,
    event    INTEGER NOT NULL, -- event.seq
    waiting  INTEGER,          -- bytes of the signed document until the entry was read, then NULL
    number   INTEGER NOT NULL,
    device   TEXT,                       -- device that leases it, or did; NULL for none, and once it was put back
    delivery INTEGER NOT NULL DEFAULT 0, -- how often it was leased
    until    INTEGER NOT NULL DEFAULT 0, -- end of the lease
    ended    INTEGER NOT NULL DEFAULT 0, -- 0 while it waits
    outcome  TEXT    NOT NULL DEFAULT '', -- '' while it waits; delivered, expired, or elsewhere: another delivery reports it
    slow     INTEGER NOT NULL DEFAULT 0, -- 1 once the signer was told that it takes time
    PRIMARY KEY (did, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_waiting ON inbox (event) WHERE waiting IS NOT NULL; -- the oldest first over all inboxes

-- Sums over an inbox, so that a full one is not counted for each offer to it. Triggers keep
-- them.
CREATE TABLE mailbox (
    did     TEXT    NOT NULL PRIMARY KEY,
    entries INTEGER NOT NULL, -- that wait
    size    INTEGER NOT NULL, -- their bytes
    number  INTEGER NOT NULL, -- of the newest entry, kept or pruned
    event   INTEGER NOT NULL, -- event.seq of the newest entry, kept or pruned
    clear   INTEGER NOT NULL DEFAULT 0, -- event.seq up to which nothing waits any more
    reads   INTEGER NOT NULL DEFAULT 0  -- 1 once an entry was read
) STRICT, WITHOUT ROWID;

CREATE TRIGGER inbox_arrived AFTER INSERT ON inbox BEGIN
    INSERT INTO mailbox (did, entries, size, number, event) VALUES (NEW.did, 1, NEW.waiting, NEW.number, NEW.event)
    ON CONFLICT (did) DO UPDATE SET entries = entries + 1, size = size + excluded.size,
        number = excluded.number, event = excluded.event;
END;

CREATE TRIGGER inbox_read AFTER UPDATE OF waiting ON inbox WHEN OLD.waiting IS NOT NULL AND NEW.waiting IS NULL BEGIN
    UPDATE mailbox SET entries = entries - 1, size = size - OLD.waiting,
        reads = CASE NEW.outcome WHEN 'delivered' THEN 1 ELSE reads END WHERE did = OLD.did;
END;

CREATE TRIGGER inbox_pruned AFTER DELETE ON inbox WHEN OLD.waiting IS NOT NULL BEGIN
    UPDATE mailbox SET entries = entries - 1, size = size - OLD.waiting WHERE did = OLD.did;
END;

-- The part of one signer in what waits in an inbox. A row exists while something waits.
-- Triggers keep it.
CREATE TABLE share (
    did     TEXT    NOT NULL,
    sender  TEXT    NOT NULL,
    entries INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (did, sender)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER inbox_shared AFTER INSERT ON inbox BEGIN
    INSERT INTO share (did, sender, entries, size) SELECT NEW.did, signer, 1, NEW.waiting FROM event WHERE seq = NEW.event
    ON CONFLICT (did, sender) DO UPDATE SET entries = entries + 1, size = size + excluded.size;
END;

CREATE TRIGGER share_read AFTER UPDATE OF waiting ON inbox WHEN OLD.waiting IS NOT NULL AND NEW.waiting IS NULL BEGIN
    UPDATE share SET entries = entries - 1, size = size - OLD.waiting
    WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event);
    DELETE FROM share WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event) AND entries = 0;
END;

CREATE TRIGGER share_pruned AFTER DELETE ON inbox WHEN OLD.waiting IS NOT NULL BEGIN
    UPDATE share SET entries = entries - 1, size = size - OLD.waiting
    WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event);
    DELETE FROM share WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event) AND entries = 0;
END;

-- How far each device of a DID has read.
CREATE TABLE device (
    did    TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    event  INTEGER NOT NULL, -- event.seq of the entry that it read last, 0 for none
    number INTEGER NOT NULL, -- of that entry
    since  INTEGER NOT NULL,
    seen   INTEGER NOT NULL,
    PRIMARY KEY (did, name)
) STRICT, WITHOUT ROWID;

-- Up to which entry of all inboxes, in the order of arrival, the gateway checked whether the
-- signer is to be told that delivery takes time.
CREATE TABLE looked (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    event INTEGER NOT NULL,
    did   TEXT    NOT NULL
) STRICT;

-- Later reports to the signers of steps. A row stays after it was read, so that no report is
-- made twice, until retention deletes it. Readers read on from a number, so none is given twice.
CREATE TABLE notice (
    n      INTEGER PRIMARY KEY AUTOINCREMENT, -- order of filing
    link   TEXT    NOT NULL,    -- by which the step came, or on which the owner of a webhook is told
    signer TEXT    NOT NULL,    -- of the step, or owner of the webhook
    reader TEXT    NOT NULL,    -- DID or name that is told
    event  TEXT    NOT NULL,    -- id of the step, which may be in no log, or of the webhook
    kind   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    next   INTEGER NOT NULL DEFAULT 0, -- not to be told before
    told   INTEGER NOT NULL DEFAULT 0,
    body   TEXT    NOT NULL,    -- the notice as JSON
    UNIQUE (signer, event, kind)
) STRICT;

CREATE INDEX notice_untold ON notice (link, n) WHERE told = 0;
CREATE INDEX notice_at ON notice (at);
CREATE INDEX notice_reader ON notice (reader, link, n);

-- Deliveries -----------------------------------------------------------------------------

-- Pending deliveries to links and homes. The rows of one handoff are delivered in order: the
-- first one has a time, and the rows behind it have none until they are the first.
CREATE TABLE outbox (
    link    TEXT    NOT NULL,
    event   INTEGER NOT NULL, -- event.seq
    attempt INTEGER NOT NULL,
    handoff TEXT    NOT NULL,
    rank    INTEGER NOT NULL,
    filed   INTEGER NOT NULL,
    next    INTEGER,                     -- when it is tried; NULL behind another row of its handoff
    reason  TEXT    NOT NULL DEFAULT '', -- why the last attempt failed
    delayed INTEGER NOT NULL DEFAULT 0,  -- 1 once its signer was told that it takes time
    PRIMARY KEY (link, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_handoff ON outbox (handoff, link, event);
CREATE INDEX outbox_head ON outbox (link, rank, event, next, handoff) WHERE next IS NOT NULL;
CREATE INDEX outbox_filed ON outbox (filed);
CREATE INDEX outbox_undelayed ON outbox (filed) WHERE delayed = 0;

-- How deliveries of an event ended. A row is deleted with its event.
CREATE TABLE settled (
    event INTEGER NOT NULL, -- event.seq
    link  TEXT    NOT NULL,
    state TEXT    NOT NULL, -- delivered or refused
    ended INTEGER NOT NULL,
    code  TEXT    NOT NULL, -- of a refusal, or the reason why a delivery was given up
    PRIMARY KEY (event, link)
) STRICT, WITHOUT ROWID;

CREATE INDEX settled_link ON settled (link, state, ended, event); -- recent deliveries of a link are read again

CREATE TRIGGER event_deleted AFTER DELETE ON event BEGIN
    DELETE FROM settled WHERE event = OLD.seq;
END;

-- The failed attempts, the last few of each delivery.
CREATE TABLE attempt (
    link   TEXT    NOT NULL, -- '' for peers of a network
    item   INTEGER NOT NULL, -- event.seq, or peer_delivery.n
    n      INTEGER NOT NULL, -- from 1
    at     INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    PRIMARY KEY (link, item, n)
) STRICT, WITHOUT ROWID;

-- Dead letters. A row stays after its replay, so that a delivery is replayed once.
CREATE TABLE dead (
    n        INTEGER PRIMARY KEY AUTOINCREMENT,
    link     TEXT    NOT NULL, -- or the peer of a network
    event    INTEGER,          -- event.seq; NULL for a row of peer_delivery
    peer_delivery INTEGER,     -- peer_delivery.n; NULL for a row of outbox
    reason   TEXT    NOT NULL,
    why      TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    queued   INTEGER NOT NULL,
    died     INTEGER NOT NULL,
    replayed INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX dead_event ON dead (event, link) WHERE event IS NOT NULL;
CREATE UNIQUE INDEX dead_peer_delivery ON dead (peer_delivery) WHERE peer_delivery IS NOT NULL;
CREATE INDEX dead_died ON dead (died);
CREATE INDEX dead_link ON dead (link);
CREATE INDEX dead_reason ON dead (reason) WHERE replayed = 0;

-- Links and peers of networks whose deliveries an operator paused.
CREATE TABLE held (
    name   TEXT    NOT NULL PRIMARY KEY,
    since  INTEGER NOT NULL,
    reason TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Pending deliveries of a network to its own peers. A row is deleted when its peer has taken
-- it; a row that was given up stays with its reason.
CREATE TABLE peer_delivery (
    n         INTEGER PRIMARY KEY AUTOINCREMENT, -- order in which they were queued
    peer      TEXT    NOT NULL,                  -- name of the peer
    sender    TEXT    NOT NULL,                  -- participant here
    message   TEXT    NOT NULL,                  -- id of the message
    order_key TEXT    NOT NULL,                  -- rows with one key are delivered in order
    document  BLOB    NOT NULL,                  -- JSON; members that change with each attempt are added to it
    handoff   TEXT    NOT NULL,                  -- '' for a message that is no step
    queued    INTEGER NOT NULL,
    attempt   INTEGER NOT NULL DEFAULT 0,
    next      INTEGER NOT NULL,                  -- when it is tried next
    delayed   INTEGER NOT NULL DEFAULT 0,        -- 1 once its sender was told that it takes time
    reason    TEXT,                              -- why the last attempt failed
    unsure    TEXT,                              -- id of an attempt that was not answered
    dead      INTEGER,                           -- when it was given up
    kind      TEXT    NOT NULL                   -- message, or decision of a participant
) STRICT;

CREATE INDEX peer_delivery_peer ON peer_delivery (peer, n) WHERE dead IS NULL;
CREATE INDEX peer_delivery_dead ON peer_delivery (dead) WHERE dead IS NOT NULL;
CREATE INDEX peer_delivery_queued ON peer_delivery (queued) WHERE dead IS NULL AND delayed = 0;
CREATE INDEX peer_delivery_all ON peer_delivery (peer, dead);

-- The ids under which a message went to peers: a new one for each attempt, and replies name
-- any of them.
CREATE TABLE peer_delivery_id (
    id      TEXT    NOT NULL PRIMARY KEY,
    message TEXT    NOT NULL,
    sender  TEXT    NOT NULL,
    sent    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX peer_delivery_id_sent ON peer_delivery_id (sent);

-- Peers that did not answer, and when the gateway asks each again. A peer that answers has
-- no row.
CREATE TABLE peer_pause (
    peer     TEXT    NOT NULL PRIMARY KEY,
    failures INTEGER NOT NULL, -- visits in a row without an answer
    next     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How operators want peers to be treated, over what the configuration says.
CREATE TABLE peer_mode (
    domain TEXT    NOT NULL PRIMARY KEY,
    mode   TEXT    NOT NULL,
    since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Identities and keys --------------------------------------------------------------------

-- Where a DID was seen last.
CREATE TABLE binding (
    did     TEXT    NOT NULL PRIMARY KEY,
    hash    TEXT    NOT NULL UNIQUE, -- of the DID, as aliases spell it
    network TEXT    NOT NULL,
    link    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    first   TEXT    NOT NULL, -- the name at first sight; never changes
    key     BLOB    NOT NULL,
    seen    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX binding_home ON binding (network) WHERE network = 'home'; -- DIDs that other homes brought

-- Names that operators bound. A name stands for one DID.
CREATE TABLE bound_name (
    network TEXT    NOT NULL, -- name of a link
    name    TEXT    NOT NULL,
    did     TEXT    NOT NULL,
    vouch   INTEGER NOT NULL, -- 1 when the gateway may sign for the DID
    since   INTEGER NOT NULL,
    PRIMARY KEY (network, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX bound_name_did ON bound_name (did, network, name);

CREATE TABLE key_owner (
    key_id TEXT NOT NULL PRIMARY KEY,
    did    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which keys sign for a DID, as each source said: one row for each stretch of time. Rows are
-- never deleted, and an end is never moved back.
CREATE TABLE key_window (
    did    TEXT    NOT NULL,
    key_id TEXT    NOT NULL,
    origin TEXT    NOT NULL, -- document, msgsig, peer, network; revoked for no source but the end of all
    via    TEXT    NOT NULL, -- which source
    since  INTEGER NOT NULL,
    seen   INTEGER NOT NULL, -- when the source said so last
    until  INTEGER NOT NULL, -- 0 for no end
    public BLOB    NOT NULL, -- empty where the gateway saw the id alone
    PRIMARY KEY (did, key_id, origin, via, since)
) STRICT, WITHOUT ROWID;

-- The keys and secrets that this record was written with, by fingerprint: the newest of each.
CREATE TABLE own_key (
    name        TEXT    NOT NULL PRIMARY KEY, -- of its file
    fingerprint TEXT    NOT NULL,
    since       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What DIDs declare that they can do.
CREATE TABLE declaration (
    did  TEXT    NOT NULL PRIMARY KEY,
    caps TEXT    NOT NULL, -- JSON
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A family of refresh tokens, of which one is good.
CREATE TABLE session (
    id          TEXT    NOT NULL PRIMARY KEY,
    participant TEXT    NOT NULL,
    generation  INTEGER NOT NULL, -- of the good one
    expires     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_expires ON session (expires);
CREATE INDEX session_participant ON session (participant);

-- Deferral -------------------------------------------------------------------------------

-- Steps that cannot be verified yet. They are in no log, and their evidence is kept with
-- their handoff.
CREATE TABLE deferred (
    n         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of arrival
    origin    TEXT    NOT NULL, -- name of the link through which it came
    network   TEXT    NOT NULL,
    handoff   TEXT    NOT NULL,
    signer    TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    digest    BLOB    NOT NULL, -- as in event
    signature TEXT    NOT NULL, -- of two with one digest either may be the forgery
    since     INTEGER NOT NULL,
    tried     INTEGER NOT NULL DEFAULT 0,
    next      INTEGER NOT NULL, -- when it is judged again
    reason    TEXT    NOT NULL,
    body      TEXT    NOT NULL, -- the event as JSON
    UNIQUE (signer, digest, signature)
) STRICT;

CREATE INDEX deferred_handoff ON deferred (handoff, n);
CREATE INDEX deferred_next ON deferred (next);
CREATE INDEX deferred_id ON deferred (id);
CREATE INDEX deferred_origin ON deferred (origin); -- for the limits of federation.DeferralLimits

-- How many wait, by origin; '' is all of them.
CREATE TABLE deferred_count (
    origin  TEXT    NOT NULL PRIMARY KEY,
    network TEXT    NOT NULL,
    steps   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Other homes ----------------------------------------------------------------------------

-- Steps in handoffs of other homes that wait for the ruling of that home. A step that the
-- home files becomes an event.
CREATE TABLE pending (
    seq     INTEGER PRIMARY KEY,
    home    TEXT    NOT NULL,
    handoff TEXT    NOT NULL,
    signer  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    digest  BLOB    NOT NULL, -- as in event
    since   INTEGER NOT NULL,
    body    TEXT    NOT NULL, -- the event as JSON
    UNIQUE (handoff, signer, id),
    UNIQUE (handoff, signer, digest)
) STRICT;

CREATE INDEX pending_home ON pending (home, seq);

-- The ruling of its home by which each step of a remote handoff was filed.
CREATE TABLE ruling (
    handoff   TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    document  TEXT    NOT NULL, -- exactly as signed
    signature TEXT    NOT NULL,
    PRIMARY KEY (handoff, version)
) STRICT, WITHOUT ROWID;

-- Proofs of equivocation: two rulings on one handoff that contradict each other. A row
-- outlives its handoff.
CREATE TABLE fork (
    handoff TEXT    NOT NULL PRIMARY KEY,
    home    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    first   TEXT    NOT NULL, -- the ruling that was filed, as JSON
    second  TEXT    NOT NULL,
    found   INTEGER NOT NULL
) STRICT;

CREATE INDEX fork_home ON fork (home, found);

-- Offences: statements of homes that failed verification, counted by kind, with the reason
-- of the last one.
CREATE TABLE offence (
    home  TEXT    NOT NULL,
    kind  TEXT    NOT NULL,
    times INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    why   TEXT    NOT NULL,
    PRIMARY KEY (home, kind)
) STRICT, WITHOUT ROWID;

-- The mailbox home of DIDs whose mailbox is at another home.
CREATE TABLE mailbox_location (
    did    TEXT    NOT NULL PRIMARY KEY,
    home   TEXT    NOT NULL,
    source TEXT    NOT NULL,
    since  INTEGER NOT NULL,
    origin TEXT    NOT NULL -- the home that had the mailbox before an operator moved it
) STRICT;

CREATE INDEX mailbox_location_home ON mailbox_location (home);

-- Other homes that operators added while the gateway ran.
CREATE TABLE known_home (
    home  TEXT    NOT NULL PRIMARY KEY,
    url   TEXT    NOT NULL,
    path  TEXT    NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Operators ------------------------------------------------------------------------------

-- Changes that operators made.
CREATE TABLE audit (
    n       INTEGER PRIMARY KEY, -- in order
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    what    TEXT    NOT NULL,    -- the words of the command
    subject TEXT    NOT NULL,
    reason  TEXT    NOT NULL
) STRICT;

CREATE INDEX audit_actor ON audit (actor, n);

-- Tokens of operators, by digest alone.
CREATE TABLE operator_token (
    name    TEXT    NOT NULL PRIMARY KEY,
    scope   TEXT    NOT NULL,
    digest  BLOB    NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX operator_token_expires ON operator_token (expires);

-- Sources that operators blocked.
CREATE TABLE block (
    what    TEXT    NOT NULL PRIMARY KEY,
    kind    TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    since   INTEGER NOT NULL,
    expires INTEGER NOT NULL -- 0: until an operator removes it
) STRICT, WITHOUT ROWID;

CREATE INDEX block_expires ON block (expires) WHERE expires <> 0;

-- One row, rewritten by each readiness check: proof that the record takes writes.
CREATE TABLE heartbeat (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    beats INTEGER NOT NULL
) STRICT;

-- Webhooks -------------------------------------------------------------------------------

-- Addresses to which arrivals in an inbox are posted.
CREATE TABLE webhook (
    id          TEXT    NOT NULL PRIMARY KEY,
    did         TEXT    NOT NULL,
    participant TEXT    NOT NULL,            -- name on a link whose messages are posted; '' for the inbox of did
    url         TEXT    NOT NULL,
    since       INTEGER NOT NULL,
    disabled    INTEGER NOT NULL DEFAULT 0,  -- 0 while it is called
    why         TEXT    NOT NULL DEFAULT '', -- it is disabled
    due         INTEGER,                     -- when the first of its deliveries is; NULL for none
    taken       INTEGER NOT NULL DEFAULT 0,  -- until when a worker has it
    UNIQUE (did, url)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_participant ON webhook (participant) WHERE participant <> '';
CREATE INDEX webhook_due ON webhook (due, taken, id) WHERE due IS NOT NULL;

-- Deliveries to webhooks, pending and ended. The rows with one order key are made in their
-- order: the first one that waits has a time, and the rows behind it have none until they are
-- the first.
CREATE TABLE push (
    webhook   TEXT    NOT NULL,
    item      INTEGER NOT NULL,            -- event.seq of an entry of the inbox, a row of a network's own tables, 2^52 + notice.n of a notice
    order_key TEXT    NOT NULL,            -- handoff; of a message without one its sender
    state     TEXT    NOT NULL DEFAULT 'waiting',
    queued    INTEGER NOT NULL,
    attempt   INTEGER NOT NULL DEFAULT 0,
    next      INTEGER,                     -- NULL behind another row, and once it ended
    reason    TEXT    NOT NULL DEFAULT '', -- why the last attempt failed
    ended     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (webhook, item)
) STRICT, WITHOUT ROWID;

CREATE INDEX push_order ON push (webhook, order_key, item) WHERE state = 'waiting';
CREATE INDEX push_next ON push (webhook, next, item) WHERE next IS NOT NULL;
CREATE INDEX push_queued ON push (queued) WHERE state = 'waiting';

-- Triggers queue the deliveries of entries and notices. The tables of a network queue theirs.
CREATE TRIGGER inbox_pushed AFTER INSERT ON inbox WHEN EXISTS (SELECT 1 FROM webhook WHERE did = NEW.did) BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.event, e.handoff, e.filed,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h JOIN event e ON e.seq = NEW.event WHERE h.did = NEW.did AND h.participant = '' AND h.disabled = 0;
END;

CREATE TRIGGER inbox_push_dropped AFTER DELETE ON inbox WHEN EXISTS (SELECT 1 FROM webhook WHERE did = OLD.did) BEGIN
    DELETE FROM push WHERE item = OLD.event AND webhook IN (SELECT id FROM webhook WHERE did = OLD.did AND participant = '');
END;

-- Notices that a DID reads from the record are posted to the webhooks of its inbox too.
CREATE TRIGGER notice_pushed AFTER INSERT ON notice WHEN NEW.link = 'inbox' AND EXISTS (SELECT 1 FROM webhook WHERE did = NEW.reader) BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.n + 4503599627370496, l.order_key, NEW.at,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = l.order_key AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h JOIN (SELECT coalesce(NEW.body ->> '$.event.handoff', NEW.event) AS order_key) l
    WHERE h.did = NEW.reader AND h.participant = '' AND h.disabled = 0;
END;

CREATE TRIGGER notice_push_dropped AFTER DELETE ON notice WHEN EXISTS (SELECT 1 FROM webhook WHERE did = OLD.reader) BEGIN
    DELETE FROM push WHERE item = OLD.n + 4503599627370496 AND webhook IN (SELECT id FROM webhook WHERE did = OLD.reader AND participant = '');
END;

-- A webhook is due when the first of its deliveries is.
CREATE TRIGGER push_queues AFTER INSERT ON push WHEN NEW.next IS NOT NULL BEGIN
    UPDATE webhook SET due = NEW.next WHERE id = NEW.webhook AND (due IS NULL OR due > NEW.next);
END;

-- The end of a delivery makes the one behind it the first of its order key.
CREATE TRIGGER push_ended AFTER UPDATE OF state ON push WHEN OLD.state = 'waiting' AND NEW.state <> 'waiting' BEGIN
    UPDATE push SET next = 0 WHERE webhook = OLD.webhook AND next IS NULL AND item =
        (SELECT min(item) FROM push WHERE webhook = OLD.webhook AND order_key = OLD.order_key AND state = 'waiting');
END;

CREATE TRIGGER push_gone AFTER DELETE ON push WHEN OLD.state = 'waiting' BEGIN
    UPDATE push SET next = 0 WHERE webhook = OLD.webhook AND next IS NULL AND item =
        (SELECT min(item) FROM push WHERE webhook = OLD.webhook AND order_key = OLD.order_key AND state = 'waiting');
    UPDATE webhook SET due = 0 WHERE id = OLD.webhook AND due IS NOT NULL;
END;
