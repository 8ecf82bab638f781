-- What steps refer to instead of holding it. A blob that a handoff claims goes with the
-- last one that does, any other when it expires.
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
