-- Version 5 says what a session began with, so that it ends with its key. The sessions from
-- before have an unknown key. Senders take turns at a link. A DID and the signed document of a
-- step are stored once.

ALTER TABLE session ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;         -- when its key ends; 0 for no end, 1 once it was revoked
ALTER TABLE session ADD COLUMN began   TEXT    NOT NULL DEFAULT 'refresh'; -- how: challenge, bound, did, header, keyless, code, device, pairing, page; refresh for an older session
ALTER TABLE session ADD COLUMN key_id  TEXT    NOT NULL DEFAULT '';        -- of the key that began it; '' for none or an unknown key
ALTER TABLE session ADD COLUMN bound   INTEGER NOT NULL DEFAULT 0;         -- 1 after a proof with the key that names this gateway
ALTER TABLE session ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN used    INTEGER NOT NULL DEFAULT 0;         -- last issue of a token
ALTER TABLE session ADD COLUMN address TEXT    NOT NULL DEFAULT '';        -- client address at its start
ALTER TABLE session ADD COLUMN client  TEXT    NOT NULL DEFAULT '';        -- OAuth client that its refresh tokens are bound to; '' for none
ALTER TABLE session ADD COLUMN client_name TEXT NOT NULL DEFAULT '';       -- as the client calls itself

ALTER TABLE webhook ADD COLUMN key_id  TEXT    NOT NULL DEFAULT ''; -- as session.key_id
ALTER TABLE webhook ADD COLUMN unbound TEXT    NOT NULL DEFAULT ''; -- the session that made it, while unbound
ALTER TABLE webhook ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;  -- when to disable it; 0 for never

CREATE INDEX webhook_unbound ON webhook (unbound) WHERE unbound <> '';

-- DIDs that logged in to an API. A row outlives the session.
CREATE TABLE login (
    did TEXT    NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL -- the last time
) STRICT, WITHOUT ROWID;

CREATE INDEX login_at ON login (at);

-- Short codes that a person types to log in an agent host. Each is valid once.
CREATE TABLE login_code (
    digest      BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the code
    kind        TEXT    NOT NULL, -- pairing; device for the user code of a device
    did         TEXT    NOT NULL, -- for which it logs in; '' for a device that is not approved
    key_id      TEXT    NOT NULL, -- of the session that made or approved it, as session.key_id
    bound       INTEGER NOT NULL, -- of that session, as session.bound
    address     TEXT    NOT NULL, -- of the device; '' for a pairing code
    client      TEXT    NOT NULL, -- as session.client
    client_name TEXT    NOT NULL, -- as session.client_name
    denied      INTEGER NOT NULL, -- 1 for a device that a person denied
    polled      INTEGER NOT NULL, -- last poll of the device; 0 for none
    expires     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX login_code_expires ON login_code (expires);
CREATE INDEX login_code_did ON login_code (did, kind, expires);
CREATE INDEX login_code_address ON login_code (kind, address);

-- Code writes each row that these triggers wrote.
DROP TRIGGER inbox_arrived;
DROP TRIGGER inbox_read;
DROP TRIGGER inbox_pruned;
DROP TRIGGER inbox_shared;
DROP TRIGGER share_read;
DROP TRIGGER share_pruned;
DROP TRIGGER unseen_answered;
DROP TRIGGER event_deleted;
DROP TRIGGER inbox_pushed;
DROP TRIGGER inbox_push_dropped;
DROP TRIGGER notice_pushed;
DROP TRIGGER notice_push_dropped;
DROP TRIGGER push_queues;
DROP TRIGGER push_ended;
DROP TRIGGER push_gone;
DROP TRIGGER event_pushed;
DROP TRIGGER handoff_unfollowed;

-- DIDs by number ---------------------------------------------------------------------------

-- The DIDs of steps and inboxes. A row is never deleted, so that a number keeps its meaning.
CREATE TABLE actor (
    n      INTEGER PRIMARY KEY,
    did    TEXT    NOT NULL UNIQUE,
    signed INTEGER NOT NULL DEFAULT 0 -- 1 once it signed an event that was filed, kept or pruned
) STRICT;

INSERT INTO actor (did, signed)
SELECT did, max(signed) FROM (
    SELECT signer AS did, 1 AS signed FROM event
    UNION ALL SELECT signer, 1 FROM tombstone
    UNION ALL SELECT offerer, 0 FROM handoff
    UNION ALL SELECT did, 0 FROM party WHERE did <> ''
    UNION ALL SELECT did, 0 FROM inbox
    UNION ALL SELECT did, 0 FROM mailbox
    UNION ALL SELECT sender, 0 FROM share) GROUP BY did;

DROP TRIGGER handoff_opened;
DROP TRIGGER handoff_moved;
DROP TRIGGER handoff_pruned;
DROP TABLE party;

CREATE TABLE handoff_new (
    n        INTEGER PRIMARY KEY, -- order of arrival
    id       TEXT    NOT NULL UNIQUE,
    version  INTEGER NOT NULL, -- compare-and-set is on this column
    view     TEXT    NOT NULL, -- JSON; can be rebuilt from the events
    head     BLOB    NOT NULL, -- link after the newest event, see event.prev
    -- Members of the view by which handoffs are searched:
    state    TEXT    NOT NULL,
    offerer  INTEGER NOT NULL, -- actor.n
    offeree  INTEGER,          -- actor.n; NULL for anyone
    assignee INTEGER,          -- actor.n; NULL for none
    moved    INTEGER NOT NULL, -- when its newest step was filed
    over     INTEGER NOT NULL,
    clock    TEXT    NOT NULL, -- what ends the handoff if no step does; '' for nothing
    since    INTEGER NOT NULL   -- when that clock started
) STRICT;

INSERT INTO handoff_new (id, version, view, head, state, offerer, offeree, assignee, moved, over, clock, since)
SELECT id, version, view, head, state, (SELECT n FROM actor WHERE did = offerer),
    (SELECT n FROM actor WHERE json_valid(view) AND did = view ->> 'offeree'),
    (SELECT n FROM actor WHERE json_valid(view) AND did = view ->> 'assignee'),
    moved, over, clock, since FROM handoff ORDER BY id;
DROP TABLE handoff;
ALTER TABLE handoff_new RENAME TO handoff;

CREATE INDEX handoff_clock ON handoff (clock, since) WHERE clock <> '';
CREATE INDEX handoff_unfinished ON handoff (offerer) WHERE over = 0;
CREATE INDEX handoff_suffix ON handoff (substr(id, -6)); -- people name a handoff by the end of its id
-- Lists, the newest movement first.
CREATE INDEX handoff_state ON handoff (state, moved);
CREATE INDEX handoff_offerer ON handoff (offerer, state, moved);
CREATE INDEX handoff_offeree ON handoff (offeree, state, moved) WHERE offeree IS NOT NULL;
CREATE INDEX handoff_assignee ON handoff (assignee, state, moved) WHERE assignee IS NOT NULL;

-- The program fills the new table from this one, and drops it.
DROP INDEX event_message;
DROP INDEX event_place;
DROP INDEX event_said;
ALTER TABLE event RENAME TO event_before;

-- Steps, receipts and text. A receipt and a text are in no log: version, prev and place are NULL.
CREATE TABLE event (
    seq     INTEGER PRIMARY KEY, -- order of filing at this gateway
    handoff TEXT    NOT NULL,
    version INTEGER,             -- position in the log of the handoff, from 1
    signer  INTEGER NOT NULL,    -- actor.n
    id      TEXT    NOT NULL,
    digest  BLOB    NOT NULL,    -- two arrivals with one digest are one step
    minted  INTEGER NOT NULL,    -- 1 if the digest does not cover the id
    prev    BLOB,                -- SHA-256 of the event before: its prev, then the SHA-256 of its document
    message TEXT,                -- id of the message that carried it
    state   TEXT    NOT NULL,    -- of the handoff after it; said for text
    filed   INTEGER NOT NULL,
    document  BLOB,              -- as it was signed; NULL for an unsigned or erased step
    body      TEXT    NOT NULL,  -- JSON of the members that no other column has, see package eventform
    author    INTEGER,           -- actor.n of the DID that the step stands for; NULL for its signer
    recipient INTEGER,           -- actor.n, of an offer or a private message
    place   TEXT,                -- a venue; after the name of its link and a space if the venue is on one link only
    said    INTEGER NOT NULL,    -- when the signer sent it, for the history of a place
    UNIQUE (handoff, version),
    UNIQUE (id, signer)          -- the id first: references come without a signer
) STRICT;

CREATE UNIQUE INDEX event_minted ON event (signer, digest) WHERE minted = 1;
CREATE INDEX event_message ON event (message) WHERE message IS NOT NULL;
CREATE INDEX event_place ON event (place, said) WHERE place IS NOT NULL;
CREATE INDEX event_said ON event (filed, seq) WHERE state = 'said';

CREATE TABLE tombstone_new (
    id      TEXT    NOT NULL,
    signer  INTEGER NOT NULL, -- actor.n
    digest  BLOB    NOT NULL, -- as in event
    handoff TEXT    NOT NULL,
    gone    INTEGER NOT NULL, -- when the event was pruned
    PRIMARY KEY (id, signer)
) STRICT, WITHOUT ROWID;

INSERT INTO tombstone_new (id, signer, digest, handoff, gone)
SELECT id, (SELECT n FROM actor WHERE did = signer), digest, handoff, gone FROM tombstone;
DROP TABLE tombstone;
ALTER TABLE tombstone_new RENAME TO tombstone;

CREATE INDEX tombstone_digest ON tombstone (signer, digest);
CREATE INDEX tombstone_gone ON tombstone (gone);

-- Arrivals of each DID, in the order of their events. Entries are numbered from 1, and one
-- device at a time may lease an entry that waits.
CREATE TABLE inbox_new (
    did      INTEGER NOT NULL, -- actor.n
    event    INTEGER NOT NULL, -- event.seq
    waiting  INTEGER,          -- bytes of the signed document until the entry was read, then NULL
    number   INTEGER NOT NULL,
    device   TEXT,                       -- device that leases it, or did; NULL for none, and once it was put back
    delivery INTEGER NOT NULL DEFAULT 0, -- how often it was leased
    until    INTEGER NOT NULL DEFAULT 0, -- end of the lease
    ended    INTEGER NOT NULL DEFAULT 0, -- 0 while it waits
    outcome  TEXT    NOT NULL DEFAULT '', -- '' while it waits; delivered, expired, or elsewhere: another delivery reports it
    slow     INTEGER NOT NULL DEFAULT 0, -- 1 once the signer was told that it takes time
    session  TEXT,                       -- of the device that leases it; NULL for none
    PRIMARY KEY (did, event)
) STRICT, WITHOUT ROWID;

INSERT INTO inbox_new (did, event, waiting, number, device, delivery, until, ended, outcome, slow)
SELECT n, event, waiting, number, device, delivery, until, ended, outcome, slow FROM inbox JOIN actor USING (did);
DROP TABLE inbox;
ALTER TABLE inbox_new RENAME TO inbox;

CREATE INDEX inbox_waiting ON inbox (event) WHERE waiting IS NOT NULL; -- the oldest first over all inboxes
CREATE INDEX inbox_session ON inbox (session) WHERE session IS NOT NULL;

-- Sums over an inbox, so that a full one is not counted for each offer to it.
CREATE TABLE mailbox_new (
    did     INTEGER PRIMARY KEY, -- actor.n
    entries INTEGER NOT NULL, -- that wait
    size    INTEGER NOT NULL, -- their bytes
    number  INTEGER NOT NULL, -- of the newest entry, kept or pruned
    event   INTEGER NOT NULL, -- event.seq of the newest entry, kept or pruned
    clear   INTEGER NOT NULL DEFAULT 0, -- event.seq up to which nothing waits any more
    reads   INTEGER NOT NULL DEFAULT 0  -- 1 once an entry was read
) STRICT;

INSERT INTO mailbox_new (did, entries, size, number, event, clear, reads)
SELECT n, entries, size, number, event, clear, reads FROM mailbox JOIN actor USING (did);
DROP TABLE mailbox;
ALTER TABLE mailbox_new RENAME TO mailbox;

-- The part of one signer in what waits in an inbox. A row exists while something waits.
CREATE TABLE share_new (
    did     INTEGER NOT NULL, -- actor.n
    sender  INTEGER NOT NULL, -- actor.n
    entries INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (did, sender)
) STRICT, WITHOUT ROWID;

INSERT INTO share_new (did, sender, entries, size)
SELECT a.n, b.n, entries, size FROM share s JOIN actor a ON a.did = s.did JOIN actor b ON b.did = s.sender;
DROP TABLE share;
ALTER TABLE share_new RENAME TO share;

-- Up to which entry of all inboxes, in the order of arrival, the gateway checked whether the
-- signer is to be told that delivery takes time. The entries of one event are in the order of
-- their numbers now, and are looked at again.
CREATE TABLE looked_new (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    event INTEGER NOT NULL,
    did   INTEGER NOT NULL -- actor.n
) STRICT;

INSERT INTO looked_new (id, event, did) SELECT id, event, 0 FROM looked;
DROP TABLE looked;
ALTER TABLE looked_new RENAME TO looked;

ALTER TABLE outbox ADD COLUMN signer INTEGER NOT NULL DEFAULT 0; -- actor.n of the event; 0 only if that is missing
UPDATE outbox SET signer = coalesce((SELECT a.n FROM event_before e JOIN actor a ON a.did = e.signer WHERE e.seq = outbox.event), 0);
CREATE INDEX outbox_turn ON outbox (link, signer, next, rank, event, handoff) WHERE next IS NOT NULL;

-- Views for people, described in deploy/README.md. The program does not read them.

CREATE VIEW handoffs AS
SELECT h.id, h.state, h.version AS steps, o.did AS offerer, e.did AS offeree, a.did AS assignee, h.view ->> 'title' AS title, strftime('%Y-%m-%dT%H:%M:%SZ', h.moved / 1000000000, 'unixepoch') AS moved
FROM handoff h JOIN actor o ON o.n = h.offerer LEFT JOIN actor e ON e.n = h.offeree LEFT JOIN actor a ON a.n = h.assignee;

CREATE VIEW steps AS
SELECT e.seq, e.handoff, e.version, e.id, s.did AS signer, e.state, strftime('%Y-%m-%dT%H:%M:%SZ', e.filed / 1000000000, 'unixepoch') AS filed, CAST(e.document AS text) AS document
FROM event e JOIN actor s ON s.n = e.signer;

CREATE VIEW inboxes AS
SELECT a.did, i.number, e.id AS event, e.handoff, CASE WHEN i.waiting IS NULL THEN i.outcome ELSE 'waiting' END AS state, i.device, i.delivery AS leases, strftime('%Y-%m-%dT%H:%M:%SZ', e.filed / 1000000000, 'unixepoch') AS filed
FROM inbox i JOIN actor a ON a.n = i.did JOIN event e ON e.seq = i.event;

CREATE VIEW deliveries AS
SELECT f.link AS destination, e.id AS item, f.handoff, 'waiting' AS state, f.attempt, f.reason, strftime('%Y-%m-%dT%H:%M:%SZ', f.filed / 1000000000, 'unixepoch') AS since
FROM outbox f JOIN event e ON e.seq = f.event
UNION ALL SELECT s.link, e.id, e.handoff, s.state, 0, s.code, strftime('%Y-%m-%dT%H:%M:%SZ', s.ended / 1000000000, 'unixepoch') FROM settled s JOIN event e ON e.seq = s.event
UNION ALL SELECT w.url, CAST(p.item AS text), p.order_key, p.state, p.attempt, p.reason, strftime('%Y-%m-%dT%H:%M:%SZ', p.queued / 1000000000, 'unixepoch') FROM push p JOIN webhook w ON w.id = p.webhook
UNION ALL SELECT r.peer, r.message, r.handoff, CASE WHEN r.dead IS NULL THEN 'waiting' ELSE 'dead' END, r.attempt, coalesce(r.reason, ''), strftime('%Y-%m-%dT%H:%M:%SZ', r.queued / 1000000000, 'unixepoch') FROM peer_delivery r;
