-- Steps that wait until they can be judged. They are in no log, and their evidence is
-- kept with their handoff.
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

-- How many wait, by origin; '' is all of them.
CREATE TABLE deferred_count (
    origin  TEXT    NOT NULL PRIMARY KEY,
    network TEXT    NOT NULL,
    steps   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
