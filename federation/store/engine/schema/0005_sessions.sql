-- Version 5 says what a session began with, so that it ends with its key. The sessions from
-- before have an unknown key.

ALTER TABLE session ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;         -- when its key ends; 0 for no end, 1 once it was revoked
ALTER TABLE session ADD COLUMN began   TEXT    NOT NULL DEFAULT 'refresh'; -- how: challenge, bound, did, header, keyless; refresh for a session from before
ALTER TABLE session ADD COLUMN key_id  TEXT    NOT NULL DEFAULT '';        -- of the key that it began with; '' for none, and for an unknown key
ALTER TABLE session ADD COLUMN bound   INTEGER NOT NULL DEFAULT 0;         -- 1 once a proof that names this gateway was made with the key
ALTER TABLE session ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN used    INTEGER NOT NULL DEFAULT 0;         -- when it got its last token
ALTER TABLE session ADD COLUMN address TEXT    NOT NULL DEFAULT '';        -- from which it began

-- The session in which a device leases an entry; NULL for none.
ALTER TABLE inbox ADD COLUMN session TEXT;
CREATE INDEX inbox_session ON inbox (session) WHERE session IS NOT NULL;

ALTER TABLE webhook ADD COLUMN key_id  TEXT    NOT NULL DEFAULT ''; -- as session.key_id
ALTER TABLE webhook ADD COLUMN unbound TEXT    NOT NULL DEFAULT ''; -- the session that made it, while that is not bound
ALTER TABLE webhook ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;  -- when it is to be disabled; 0 for no end

CREATE INDEX webhook_unbound ON webhook (unbound) WHERE unbound <> '';
