-- What is owed to other registries. A row goes when its registry has taken it; one that
-- was given up stays with its reason.
CREATE TABLE relay (
    n        INTEGER PRIMARY KEY AUTOINCREMENT, -- order in which they were queued
    peer     TEXT    NOT NULL,                  -- domain
    sender   TEXT    NOT NULL,                  -- handle here
    message  TEXT    NOT NULL,                  -- id of the message
    lane     TEXT    NOT NULL,                  -- rows of one lane are delivered in order
    document BLOB    NOT NULL,                  -- JSON; what changes with each attempt is added to it
    handoff  TEXT    NOT NULL,                  -- '' for a message that is no step
    queued   INTEGER NOT NULL,
    attempt  INTEGER NOT NULL DEFAULT 0,
    next     INTEGER NOT NULL,                  -- when it is tried next
    delayed  INTEGER NOT NULL DEFAULT 0,        -- 1 when its sender was told that it takes time
    reason   TEXT,                              -- why the last attempt failed
    unsure   TEXT,                              -- id of an attempt that was not answered
    dead     INTEGER                            -- when it was given up
) STRICT;

CREATE INDEX relay_peer ON relay (peer, n) WHERE dead IS NULL;
CREATE INDEX relay_dead ON relay (dead) WHERE dead IS NOT NULL;
CREATE INDEX relay_queued ON relay (queued) WHERE dead IS NULL AND delayed = 0;

-- The ids under which a message went to other registries: a new one for each attempt,
-- and replies name any of them.
CREATE TABLE relay_id (
    id      TEXT    NOT NULL PRIMARY KEY,
    message TEXT    NOT NULL,
    sender  TEXT    NOT NULL,
    sent    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX relay_id_sent ON relay_id (sent);
