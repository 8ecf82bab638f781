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

ALTER TABLE declaration ADD COLUMN name        TEXT NOT NULL DEFAULT ''; -- of the DID here, '' for none
ALTER TABLE declaration ADD COLUMN description TEXT NOT NULL DEFAULT '';

CREATE UNIQUE INDEX declaration_name ON declaration (name) WHERE name <> '';

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

-- Passwords of the listener for IRC clients, as the keys of SCRAM-SHA-256 (RFC 5802).
CREATE TABLE password (
    did        TEXT    NOT NULL PRIMARY KEY,
    salt       BLOB    NOT NULL,
    iterations INTEGER NOT NULL,
    stored_key BLOB    NOT NULL,
    server_key BLOB    NOT NULL,
    since      INTEGER NOT NULL -- when it was set
) STRICT, WITHOUT ROWID;

-- Up to when an account of the listener for IRC clients has read a channel or the messages of a DID.
CREATE TABLE marker (
    did    TEXT    NOT NULL,
    target TEXT    NOT NULL, -- channel, DID or nick
    at     INTEGER NOT NULL,
    PRIMARY KEY (did, target)
) STRICT, WITHOUT ROWID;

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

-- Deliveries -----------------------------------------------------------------------------

-- Everything that is delivered is an item: a step, receipt or text by its event.seq, a notice by
-- 4503599627370496 (2^52) + notice.n, a row of a network's own tables by 2 * 2^52 + its number, and
-- a document for a peer by 3 * 2^52 + document.n.

-- Where items are delivered to. The name of a link or of another home is its own. The other names
-- begin with a word: peer/NAME, webhook/ID, and notices/LINK for the readers of a link's notices.
CREATE TABLE destination (
    n        INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL UNIQUE,
    kind     TEXT    NOT NULL,            -- link, peer, webhook, notices
    failures INTEGER NOT NULL DEFAULT 0,  -- visits in a row that it did not answer
    next     INTEGER NOT NULL DEFAULT 0,  -- when it is visited again; 0 if it answered
    held     INTEGER NOT NULL DEFAULT 0,  -- since when an operator holds it; 0 for a destination that is not held
    reason   TEXT    NOT NULL DEFAULT '', -- why it is held
    due      INTEGER,                     -- of a webhook or peer: when the first of its deliveries is due; NULL for none
    taken    INTEGER NOT NULL DEFAULT 0   -- until when a worker has it
) STRICT;

CREATE INDEX destination_due ON destination (due, taken, n) WHERE due IS NOT NULL;
CREATE INDEX destination_kind ON destination (kind, name);
CREATE INDEX destination_held ON destination (name) WHERE held > 0;

-- Deliveries, pending and ended. The rows of one lane are delivered in the order of their items: the
-- first one that waits has a time, and the rows behind it have none. A row that waits for an absent
-- party (rank 5) blocks no other row. A row is deleted with its item.
CREATE TABLE delivery (
    item        INTEGER NOT NULL,
    destination INTEGER NOT NULL,            -- destination.n
    lane        TEXT    NOT NULL,            -- a handoff, a conversation, the two ends of a document, or the reader of a notice
    sender      INTEGER NOT NULL,            -- actor.n, whose turn it takes; 0 only if the item is missing
    rank        INTEGER NOT NULL,
    queued      INTEGER NOT NULL,
    attempt     INTEGER NOT NULL DEFAULT 0,
    next        INTEGER,                     -- when it is tried; NULL behind another row of its lane, and once it ended
    delayed     INTEGER NOT NULL DEFAULT 0,  -- 1 once its sender was told that it takes time; 2 if nobody is told
    state       TEXT    NOT NULL DEFAULT 'waiting',
    reason      TEXT    NOT NULL DEFAULT '', -- why the last attempt failed, or why it was given up
    unsure      TEXT    NOT NULL DEFAULT '', -- ID of an attempt that was not answered
    ended       INTEGER NOT NULL DEFAULT 0,  -- 0 while it waits
    code        TEXT    NOT NULL DEFAULT '', -- of a refusal, or the reason why it was given up
    letter      INTEGER,                     -- number of its dead letter; NULL for none. It stays after a replay, so that a delivery is replayed once
    replayed    INTEGER NOT NULL DEFAULT 0,  -- when its dead letter was put back
    PRIMARY KEY (item, destination)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_lane ON delivery (lane, destination, item) WHERE state = 'waiting';
CREATE INDEX delivery_due ON delivery (destination, next, rank, item) WHERE next IS NOT NULL;
CREATE INDEX delivery_turn ON delivery (destination, sender, next, rank, item) WHERE next IS NOT NULL;
CREATE INDEX delivery_age ON delivery (destination, delayed, queued, item) WHERE state = 'waiting'; -- lists, counts, delays and expiry
CREATE INDEX delivery_given ON delivery (destination, ended, item) WHERE state = 'delivered' AND delayed < 2; -- recent deliveries of a link are read again
CREATE INDEX delivery_listed ON delivery (destination, item) WHERE delayed = 2; -- the deliveries to a webhook, pending and ended
CREATE UNIQUE INDEX delivery_letter ON delivery (letter) WHERE letter IS NOT NULL;
CREATE INDEX delivery_dead ON delivery (destination, code, letter) WHERE state = 'dead';

ALTER TABLE attempt RENAME TO attempt_before;
ALTER TABLE dead RENAME TO dead_before;

-- The last failed attempts of each delivery.
CREATE TABLE attempt (
    item        INTEGER NOT NULL,
    destination INTEGER NOT NULL,
    n           INTEGER NOT NULL, -- from 1
    at          INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    PRIMARY KEY (item, destination, n)
) STRICT, WITHOUT ROWID;

-- The number of the newest dead letter, so that no other letter gets the number of a dropped one.
CREATE TABLE letter (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
) STRICT;

-- What a network sends to peers of its own. A row is deleted when its peer has taken it.
CREATE TABLE document (
    n        INTEGER PRIMARY KEY AUTOINCREMENT, -- order in which they were queued
    kind     TEXT    NOT NULL,                  -- message, or decision of a participant
    sender   TEXT    NOT NULL,                  -- participant here
    message  TEXT    NOT NULL,                  -- ID of the message
    handoff  TEXT    NOT NULL,                  -- '' for a message that is no step
    document BLOB    NOT NULL                   -- JSON; members that change with each attempt are added to it
) STRICT;

INSERT INTO destination (name, kind)
SELECT DISTINCT link, 'link' FROM (SELECT link FROM outbox UNION SELECT link FROM settled UNION SELECT link FROM dead_before WHERE event IS NOT NULL AND link NOT LIKE 'webhook/%') AS links;
INSERT INTO destination (name, kind, held, reason) SELECT name, 'link', since, reason FROM held WHERE name <> ''
ON CONFLICT (name) DO UPDATE SET held = excluded.held, reason = excluded.reason;
INSERT INTO destination (name, kind, failures, next, due)
SELECT 'peer/' || r.peer, 'peer', coalesce(max(p.failures), 0), coalesce(max(p.next), 0), 0
FROM (SELECT peer FROM peer_delivery UNION SELECT peer FROM peer_pause) r LEFT JOIN peer_pause p ON p.peer = r.peer GROUP BY r.peer;
INSERT INTO destination (name, kind, due, taken) SELECT 'webhook/' || id, 'webhook', due, taken FROM webhook;
INSERT INTO destination (name, kind) SELECT DISTINCT 'webhook/' || webhook, 'webhook' FROM push WHERE webhook NOT IN (SELECT id FROM webhook);
INSERT INTO destination (name, kind) SELECT DISTINCT 'notices/' || link, 'notices' FROM notice WHERE told = 0;

INSERT INTO actor (did) SELECT sender FROM peer_delivery WHERE true ON CONFLICT (did) DO NOTHING;
INSERT INTO actor (did) SELECT signer FROM notice WHERE told = 0 OR n IN (SELECT item - 4503599627370496 FROM push WHERE item >= 4503599627370496) ON CONFLICT (did) DO NOTHING;

INSERT INTO delivery (item, destination, lane, sender, rank, queued, attempt, next, delayed, reason)
SELECT f.event, d.n, f.handoff, coalesce(a.n, 0), f.rank, f.filed, f.attempt, f.next, f.delayed, f.reason
FROM outbox f JOIN destination d ON d.name = f.link LEFT JOIN event_before e ON e.seq = f.event LEFT JOIN actor a ON a.did = e.signer ORDER BY f.event, d.n;

INSERT INTO delivery (item, destination, lane, sender, rank, queued, state, ended, code)
SELECT s.event, d.n, coalesce(e.handoff, ''), coalesce(a.n, 0), 1, coalesce(e.filed, 0), s.state, s.ended, s.code
FROM settled s JOIN destination d ON d.name = s.link LEFT JOIN event_before e ON e.seq = s.event LEFT JOIN actor a ON a.did = e.signer WHERE true ORDER BY s.event, d.n
ON CONFLICT (item, destination) DO NOTHING;

INSERT INTO delivery (item, destination, lane, sender, rank, queued, attempt, next, delayed, state, reason, ended)
SELECT CASE WHEN p.item < 4503599627370496 AND w.participant <> '' THEN p.item + 9007199254740992 ELSE p.item END, d.n, p.order_key, coalesce(a.n, b.n, 0), 1, p.queued, p.attempt, p.next, 2, p.state, p.reason, p.ended
FROM push p JOIN destination d ON d.name = 'webhook/' || p.webhook LEFT JOIN webhook w ON w.id = p.webhook
    LEFT JOIN event_before e ON e.seq = p.item LEFT JOIN actor a ON a.did = e.signer
    LEFT JOIN notice o ON o.n = p.item - 4503599627370496 LEFT JOIN actor b ON b.did = o.signer;

INSERT INTO delivery (item, destination, lane, sender, rank, queued, attempt, next, delayed, state, reason, ended)
SELECT o.n + 4503599627370496, d.n, o.reader, coalesce(a.n, 0), 1, o.at, 0, CASE WHEN o.n = l.n THEN o.next END, 2, 'waiting', '', 0
FROM notice o JOIN (SELECT link, reader, min(n) AS n FROM notice WHERE told = 0 GROUP BY link, reader) l ON l.link = o.link AND l.reader = o.reader
    JOIN destination d ON d.name = 'notices/' || o.link LEFT JOIN actor a ON a.did = o.signer WHERE o.told = 0;

INSERT INTO document (n, kind, sender, message, handoff, document) SELECT n, kind, sender, message, handoff, document FROM peer_delivery ORDER BY n;
INSERT INTO delivery (item, destination, lane, sender, rank, queued, attempt, next, delayed, state, reason, unsure, ended)
SELECT r.n + 13510798882111488, d.n, r.order_key, coalesce(a.n, 0), 1, r.queued, r.attempt, CASE WHEN r.n = l.n THEN r.next END,
    CASE WHEN r.kind = 'message' THEN r.delayed ELSE 2 END, CASE WHEN r.dead IS NULL THEN 'waiting' ELSE 'dead' END, coalesce(r.reason, ''), coalesce(r.unsure, ''), coalesce(r.dead, 0)
FROM peer_delivery r JOIN destination d ON d.name = 'peer/' || r.peer LEFT JOIN actor a ON a.did = r.sender
    LEFT JOIN (SELECT peer, order_key, min(n) AS n FROM peer_delivery WHERE dead IS NULL GROUP BY peer, order_key) l ON l.peer = r.peer AND l.order_key = r.order_key;

-- Dead letters of steps, and of documents. The tables of a network convert the letters of their own items.
INSERT INTO delivery (item, destination, lane, sender, rank, queued, attempt, delayed, state, reason, ended, code, letter, replayed)
SELECT l.event, d.n, coalesce(e.handoff, ''), coalesce(a.n, 0), 1, l.queued, l.attempt, CASE WHEN d.kind = 'webhook' THEN 2 ELSE 1 END, 'dead', l.why, l.died, l.reason, l.n, l.replayed
FROM dead_before l JOIN destination d ON d.name = l.link LEFT JOIN webhook w ON 'webhook/' || w.id = l.link
    LEFT JOIN event_before e ON e.seq = l.event LEFT JOIN actor a ON a.did = e.signer WHERE l.event IS NOT NULL AND coalesce(w.participant, '') = ''
ON CONFLICT (item, destination) DO UPDATE SET letter = excluded.letter, replayed = excluded.replayed,
    reason = CASE delivery.state WHEN 'dead' THEN excluded.reason ELSE delivery.reason END, code = CASE delivery.state WHEN 'dead' THEN excluded.code ELSE delivery.code END,
    queued = CASE delivery.state WHEN 'dead' THEN excluded.queued ELSE delivery.queued END, attempt = CASE delivery.state WHEN 'dead' THEN excluded.attempt ELSE delivery.attempt END;
UPDATE delivery SET letter = l.n, code = CASE delivery.state WHEN 'dead' THEN l.reason ELSE '' END, replayed = l.replayed
FROM dead_before l WHERE delivery.item = l.peer_delivery + 13510798882111488 AND l.peer_delivery IS NOT NULL;
INSERT INTO letter (id, last) SELECT 1, max(n) FROM dead_before HAVING count(*) > 0;

INSERT INTO attempt (item, destination, n, at, reason)
SELECT t.item, d.n, t.n, t.at, t.reason FROM attempt_before t JOIN destination d ON d.name = t.link LEFT JOIN webhook w ON 'webhook/' || w.id = t.link
WHERE t.link <> '' AND coalesce(w.participant, '') = '';
INSERT INTO attempt (item, destination, n, at, reason)
SELECT t.item + 13510798882111488, d.n, t.n, t.at, t.reason FROM attempt_before t JOIN peer_delivery r ON r.n = t.item JOIN destination d ON d.name = 'peer/' || r.peer WHERE t.link = '';

-- The program drops the tables and columns that were converted, after the tables of a network were.

-- Chat ------------------------------------------------------------------------------------

-- What people said on the listener for IRC clients, and on the links whose channels it relays.
-- retention.chat says how long a line stays.
CREATE TABLE line (
    n         INTEGER PRIMARY KEY, -- order of filing
    place     TEXT    NOT NULL,    -- as event.place
    at        INTEGER NOT NULL,    -- when it was said
    id        TEXT    NOT NULL,    -- of the message
    author    TEXT    NOT NULL,    -- DID
    recipient TEXT,                -- DID, of a private line; NULL in a channel
    event     INTEGER NOT NULL,    -- 0 for text, 1 for a reaction, a change of topic and the like
    body      TEXT    NOT NULL,    -- JSON of the members that no other column has
    UNIQUE (place, id)
) STRICT;

CREATE INDEX line_place ON line (place, at, n);
CREATE INDEX line_at ON line (at);
CREATE INDEX line_author ON line (author, at);
CREATE INDEX line_recipient ON line (recipient, at) WHERE recipient IS NOT NULL;

-- Samples of the gateway for the charts of its operators, those of the last day.
CREATE TABLE sample (
    at      INTEGER NOT NULL PRIMARY KEY,
    step    INTEGER NOT NULL, -- event.seq of the newest step
    waiting INTEGER NOT NULL, -- pending deliveries
    dead    INTEGER NOT NULL, -- dead letters
    down    INTEGER NOT NULL, -- links that do not work
    disk    INTEGER NOT NULL  -- percent of the disk that is free
) STRICT;

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
SELECT CASE d.kind WHEN 'link' THEN d.name WHEN 'webhook' THEN coalesce(w.url, d.name) ELSE d.name END AS destination,
    coalesce(e.id, o.message, x.event || '/' || x.kind, CAST(f.item AS text)) AS item, coalesce(e.handoff, o.handoff, f.lane) AS handoff, f.state, f.attempt,
    CASE WHEN f.code <> '' THEN f.code ELSE f.reason END AS reason, strftime('%Y-%m-%dT%H:%M:%SZ', (CASE WHEN f.ended = 0 THEN f.queued ELSE f.ended END) / 1000000000, 'unixepoch') AS since
FROM delivery f JOIN destination d ON d.n = f.destination LEFT JOIN webhook w ON 'webhook/' || w.id = d.name LEFT JOIN event e ON e.seq = f.item
    LEFT JOIN notice x ON x.n = f.item - 4503599627370496 LEFT JOIN document o ON o.n = f.item - 13510798882111488;

CREATE VIEW chat AS
SELECT place, strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000000000, 'unixepoch') AS said, id, author, recipient, body ->> 'command' AS command, body ->> 'text' AS text FROM line;

CREATE VIEW samples AS
SELECT strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000000000, 'unixepoch') AS taken, step, waiting, dead, down, disk FROM sample;
