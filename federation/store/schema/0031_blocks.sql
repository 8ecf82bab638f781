-- What operators blocked: nothing is taken from these sources.
CREATE TABLE block (
    what    TEXT    NOT NULL PRIMARY KEY,
    kind    TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    since   INTEGER NOT NULL,
    expires INTEGER NOT NULL -- 0: it holds until it is removed
) STRICT, WITHOUT ROWID;

CREATE INDEX block_expires ON block (expires) WHERE expires <> 0;
