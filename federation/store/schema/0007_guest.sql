-- Steps in handoffs of other homes, until those have ruled on them. A step that is
-- filed in the end is then an event like any other.
CREATE TABLE pending (
    seq     INTEGER PRIMARY KEY,
    home    TEXT    NOT NULL, -- whose ruling it waits for
    handoff TEXT    NOT NULL,
    signer  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    digest  BLOB    NOT NULL, -- as in event
    since   INTEGER NOT NULL, -- unix nanoseconds
    body    TEXT    NOT NULL, -- the event as JSON
    UNIQUE (handoff, signer, id),
    UNIQUE (handoff, signer, digest)
) STRICT;

CREATE INDEX pending_home ON pending (home, seq);
