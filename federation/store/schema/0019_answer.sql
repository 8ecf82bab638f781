-- What callers of the REST API were told that gave their request a key.
CREATE TABLE answer (
    did    TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    digest BLOB    NOT NULL, -- SHA-256 of the request
    event  TEXT    NOT NULL, -- id of the step
    status INTEGER NOT NULL, -- 0 while it was not answered
    body   BLOB,
    at     INTEGER NOT NULL,
    PRIMARY KEY (did, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX answer_at ON answer (at);

-- What DIDs say that they can do, besides the skills of registered agents.
CREATE TABLE declaration (
    did  TEXT    NOT NULL PRIMARY KEY,
    caps TEXT    NOT NULL, -- JSON
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
