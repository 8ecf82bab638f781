-- Identifiers are kept as their canonical text, so that an operator can read the
-- record with any SQLite shell. Times are unix nanoseconds, 0 for none. Digests
-- are the 32 bytes of a SHA-256.

-- "Btn1": tells the record from any other SQLite file.
PRAGMA application_id = 0x42746e31;

CREATE TABLE handoff (
    id      TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL, -- compare-and-set is on this column
    view    TEXT    NOT NULL, -- JSON; can be rebuilt from the events
    head    BLOB    NOT NULL  -- link after the newest event, see event.prev
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    seq     INTEGER PRIMARY KEY, -- order of filing at this gateway
    handoff TEXT    NOT NULL,
    version INTEGER NOT NULL,    -- position in the log of the handoff, from 1
    signer  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    digest  BLOB    NOT NULL,    -- what makes two arrivals one step
    prev    BLOB    NOT NULL,    -- SHA-256 of the event before: its prev, then the SHA-256 of its document
    message TEXT,                -- id of the message that carried it
    state   TEXT    NOT NULL,    -- of the handoff after it
    filed   INTEGER NOT NULL,
    body    TEXT    NOT NULL,    -- JSON, without the bytes of the evidence
    UNIQUE (handoff, version),
    UNIQUE (id, signer),         -- the id first: references come without a signer
    UNIQUE (signer, digest)
) STRICT;

CREATE INDEX event_message ON event (message) WHERE message IS NOT NULL;

CREATE TABLE evidence (
    digest BLOB NOT NULL PRIMARY KEY, -- of bytes
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE inbox (
    did   TEXT    NOT NULL,
    n     INTEGER NOT NULL, -- dense, from 1
    event INTEGER NOT NULL, -- event.seq
    PRIMARY KEY (did, n)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: a link reads on from the last row that it saw, so the number of
-- a settled row must never come back.
CREATE TABLE feed (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    link    TEXT    NOT NULL,
    event   INTEGER NOT NULL, -- event.seq
    attempt INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX feed_link ON feed (link, seq);

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

CREATE TABLE key_owner (
    key_id TEXT NOT NULL PRIMARY KEY,
    did    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent (
    n            INTEGER PRIMARY KEY, -- order of registration
    handle       TEXT    NOT NULL UNIQUE,
    did          TEXT    NOT NULL UNIQUE,
    own_did      TEXT    NOT NULL,    -- not unique: one key may register two handles
    capabilities BLOB,                -- JSON as registered
    metadata     BLOB,                -- JSON as registered
    registered   INTEGER NOT NULL,
    kept_key     BLOB    NOT NULL
) STRICT;

CREATE INDEX agent_own_did ON agent (own_did);

CREATE TABLE agent_key (
    handle  TEXT    NOT NULL,
    n       INTEGER NOT NULL, -- order of registration
    id      TEXT    NOT NULL,
    public  BLOB    NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (handle, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    n         INTEGER PRIMARY KEY, -- order in which they came
    id        TEXT    NOT NULL,
    sender    TEXT    NOT NULL,
    recipient TEXT    NOT NULL,
    low       TEXT    NOT NULL,    -- the thread: the two handles, sorted
    high      TEXT    NOT NULL,
    seq       INTEGER,             -- in the thread, dense from 1; NULL while held
    position  INTEGER,             -- in the recipient's inbox, dense from 1; NULL while held
    envelope  BLOB    NOT NULL,
    event     TEXT,                -- NULL for a message that is no step
    handoff   TEXT,
    received  INTEGER NOT NULL,
    UNIQUE (low, high, seq),
    UNIQUE (recipient, position)
) STRICT;

CREATE UNIQUE INDEX message_event ON message (recipient, event) WHERE event IS NOT NULL;
CREATE INDEX message_id ON message (id);
CREATE INDEX message_held ON message (sender, recipient) WHERE seq IS NULL;

CREATE TABLE consent (
    sender    TEXT    NOT NULL,
    recipient TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    updated   INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    PRIMARY KEY (sender, recipient)
) STRICT, WITHOUT ROWID;

-- One row, rewritten by each readiness check: proof that the record can be written.
CREATE TABLE heartbeat (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    beats INTEGER NOT NULL
) STRICT;
