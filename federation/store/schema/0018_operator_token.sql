-- Tokens that let their bearers ask as operators. Of the tokens themselves there is the
-- digest alone.
CREATE TABLE operator_token (
    name    TEXT    NOT NULL PRIMARY KEY,
    scope   TEXT    NOT NULL,
    digest  BLOB    NOT NULL UNIQUE, -- SHA-256
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX operator_token_expires ON operator_token (expires);
