-- Other homes that operators added while the gateway ran.
CREATE TABLE known_home (
    home  TEXT    NOT NULL PRIMARY KEY,
    url   TEXT    NOT NULL,
    path  TEXT    NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
