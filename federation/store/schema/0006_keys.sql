-- Which keys signed for whom, as each source said: one row for each stretch of time.
-- Rows are never deleted, and an end is never moved back.
CREATE TABLE key_window (
    did    TEXT    NOT NULL,
    key_id TEXT    NOT NULL,
    origin TEXT    NOT NULL, -- document, msgsig, peer, registry; revoked for no source but the end of all
    via    TEXT    NOT NULL, -- which source
    since  INTEGER NOT NULL,
    seen   INTEGER NOT NULL, -- when the source said so last
    until  INTEGER NOT NULL, -- 0 for no end
    public BLOB    NOT NULL, -- empty where nobody saw more than the id
    PRIMARY KEY (did, key_id, origin, via, since)
) STRICT, WITHOUT ROWID;
