-- The keys and secrets that this record was written with, by fingerprint: the newest of each.
CREATE TABLE own_key (
    name        TEXT    NOT NULL PRIMARY KEY, -- of its file
    fingerprint TEXT    NOT NULL,
    since       INTEGER NOT NULL -- unix nanoseconds
) STRICT, WITHOUT ROWID;
