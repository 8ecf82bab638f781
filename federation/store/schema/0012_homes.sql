-- By which ruling of its home each step of a guest's log was filed.
CREATE TABLE ruling (
    handoff   TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    document  TEXT    NOT NULL, -- exactly as signed
    signature TEXT    NOT NULL,
    PRIMARY KEY (handoff, version)
) STRICT, WITHOUT ROWID;

-- Proof against homes: two rulings on one handoff that cannot both stand. It outlives
-- the handoff.
CREATE TABLE fork (
    handoff TEXT    NOT NULL PRIMARY KEY,
    home    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    first   TEXT    NOT NULL, -- the ruling that was filed, as JSON
    second  TEXT    NOT NULL,
    found   INTEGER NOT NULL  -- unix nanoseconds
) STRICT;

CREATE INDEX fork_home ON fork (home, found);

-- Where DIDs have their mailboxes, as far as that is another home.
CREATE TABLE residence (
    did    TEXT    NOT NULL PRIMARY KEY,
    home   TEXT    NOT NULL,
    source TEXT    NOT NULL,
    since  INTEGER NOT NULL
) STRICT;
