-- The tables of a registry of agents in an SQLite file, beside the tables of the record. Its
-- conventions are those of the record.

-- Registry of agents ---------------------------------------------------------------------

CREATE TABLE agent (
    n              INTEGER PRIMARY KEY, -- order of registration
    handle         TEXT    NOT NULL UNIQUE,
    did            TEXT    NOT NULL UNIQUE,
    own_did        TEXT    NOT NULL,    -- not unique: one key may register two handles
    capabilities   BLOB,                -- JSON as registered
    metadata       BLOB,                -- JSON as registered
    registered     INTEGER NOT NULL,
    kept_key       BLOB    NOT NULL,
    shown          INTEGER NOT NULL DEFAULT 0,  -- message.position up to which it was handed its messages
    shows_presence TEXT    NOT NULL, -- which callers see that it exists; '' is the default
    shows_context  TEXT    NOT NULL, -- which callers see what it works on
    issuer         TEXT    NOT NULL, -- of the OpenID Connect account by which it registered; '' for none
    subject        TEXT    NOT NULL
) STRICT;

CREATE INDEX agent_own_did ON agent (own_did);

-- The keys of an agent. A did:key belongs to an agent once the agent proved the key for its
-- handle; until then did is ''.
CREATE TABLE agent_key (
    handle  TEXT    NOT NULL,
    n       INTEGER NOT NULL, -- order of registration
    id      TEXT    NOT NULL,
    public  BLOB    NOT NULL,
    created INTEGER NOT NULL,
    did     TEXT    NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0, -- from when it is invalid
    reason  TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (handle, n)
) STRICT, WITHOUT ROWID;

CREATE INDEX agent_key_did ON agent_key (did);
CREATE UNIQUE INDEX agent_key_owner ON agent_key (did) WHERE did <> ''; -- no two agents have one DID

-- What agents say they can do: the strings in "skills" of agent.capabilities.
CREATE TABLE agent_skill (
    skill TEXT    NOT NULL,
    agent INTEGER NOT NULL, -- agent.n
    PRIMARY KEY (skill, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    n         INTEGER PRIMARY KEY, -- order of arrival
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
    edge      TEXT,                -- the handle whose consent it waits for; NULL once delivered
    read      INTEGER,             -- when its recipient had read it; NULL before
    deleted   INTEGER NOT NULL DEFAULT 0, -- 1 once its recipient deleted it
    told      INTEGER,             -- when it was delivered, later than the one before it in its thread; NULL while held
    ended     INTEGER,             -- when it was handed out; NULL while its step waits, and of no step
    outcome   TEXT    NOT NULL DEFAULT '', -- '' until it ended
    slow      INTEGER NOT NULL DEFAULT 0,  -- 1 once the signer was told that it takes time, 2 where no agent here reads it
    UNIQUE (low, high, seq),
    UNIQUE (recipient, position)
) STRICT;

CREATE UNIQUE INDEX message_event ON message (recipient, event) WHERE event IS NOT NULL;
CREATE INDEX message_id ON message (id);
CREATE INDEX message_held ON message (edge, recipient) WHERE edge IS NOT NULL;
CREATE INDEX message_handoff ON message (handoff, recipient) WHERE handoff IS NOT NULL;
CREATE INDEX message_told ON message (recipient, told);
CREATE INDEX message_high ON message (high, low);
CREATE INDEX message_waits ON message (slow, told) WHERE event IS NOT NULL AND ended IS NULL AND slow < 2;

CREATE TABLE consent (
    sender    TEXT    NOT NULL,
    recipient TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    updated   INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    asked     INTEGER NOT NULL DEFAULT 0, -- when the sender asked last
    barred    INTEGER NOT NULL DEFAULT 0, -- until when it may not ask again
    answered  INTEGER NOT NULL DEFAULT 0, -- 1 where the block of a blocked sender answered a request
    PRIMARY KEY (sender, recipient)
) STRICT, WITHOUT ROWID;

CREATE INDEX consent_asked ON consent (sender, asked) WHERE asked <> 0;
CREATE INDEX consent_pending ON consent (recipient, asked) WHERE state = 'pending';

-- Triggers queue the deliveries of messages to webhooks.
CREATE TRIGGER message_pushed AFTER INSERT ON message WHEN NEW.position IS NOT NULL AND EXISTS (SELECT 1 FROM webhook WHERE participant = NEW.recipient AND participant <> '') BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.n, coalesce(NEW.handoff, NEW.sender), NEW.received,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = coalesce(NEW.handoff, NEW.sender) AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h WHERE h.participant = NEW.recipient AND h.participant <> '' AND h.disabled = 0;
END;

CREATE TRIGGER message_released AFTER UPDATE OF position ON message
WHEN OLD.position IS NULL AND NEW.position IS NOT NULL AND EXISTS (SELECT 1 FROM webhook WHERE participant = NEW.recipient AND participant <> '') BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.n, coalesce(NEW.handoff, NEW.sender), NEW.received,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = coalesce(NEW.handoff, NEW.sender) AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h WHERE h.participant = NEW.recipient AND h.participant <> '' AND h.disabled = 0;
END;

CREATE TRIGGER message_push_dropped AFTER DELETE ON message WHEN EXISTS (SELECT 1 FROM webhook WHERE participant = OLD.recipient AND participant <> '') BEGIN
    DELETE FROM push WHERE item = OLD.n AND webhook IN (SELECT id FROM webhook WHERE participant = OLD.recipient AND participant <> '');
END;
