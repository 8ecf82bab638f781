-- What homes said and were not believed in: of each kind how often, and why the last time.
CREATE TABLE doubt (
    home  TEXT    NOT NULL,
    kind  TEXT    NOT NULL,
    times INTEGER NOT NULL,
    first INTEGER NOT NULL, -- unix nanoseconds
    last  INTEGER NOT NULL,
    why   TEXT    NOT NULL,
    PRIMARY KEY (home, kind)
) STRICT, WITHOUT ROWID;
