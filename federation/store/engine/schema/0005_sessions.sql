-- Version 5 says what a session began with, so that it ends with its key. The sessions from
-- before have an unknown key. Senders take turns at a link.

ALTER TABLE session ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;         -- when its key ends; 0 for no end, 1 once it was revoked
ALTER TABLE session ADD COLUMN began   TEXT    NOT NULL DEFAULT 'refresh'; -- how: challenge, bound, did, header, keyless; refresh for an older session
ALTER TABLE session ADD COLUMN key_id  TEXT    NOT NULL DEFAULT '';        -- of the key that began it; '' for none or an unknown key
ALTER TABLE session ADD COLUMN bound   INTEGER NOT NULL DEFAULT 0;         -- 1 after a proof with the key that names this gateway
ALTER TABLE session ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN used    INTEGER NOT NULL DEFAULT 0;         -- last issue of a token
ALTER TABLE session ADD COLUMN address TEXT    NOT NULL DEFAULT '';        -- client address at its start

-- Session of the device that leases an entry; NULL for none.
ALTER TABLE inbox ADD COLUMN session TEXT;
CREATE INDEX inbox_session ON inbox (session) WHERE session IS NOT NULL;

ALTER TABLE webhook ADD COLUMN key_id  TEXT    NOT NULL DEFAULT ''; -- as session.key_id
ALTER TABLE webhook ADD COLUMN unbound TEXT    NOT NULL DEFAULT ''; -- the session that made it, while unbound
ALTER TABLE webhook ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;  -- when to disable it; 0 for never

CREATE INDEX webhook_unbound ON webhook (unbound) WHERE unbound <> '';

ALTER TABLE outbox ADD COLUMN signer TEXT NOT NULL DEFAULT ''; -- of the event; '' only if that is missing
UPDATE outbox SET signer = coalesce((SELECT e.signer FROM event e WHERE e.seq = outbox.event), '');
CREATE INDEX outbox_turn ON outbox (link, signer, next, rank, event, handoff) WHERE next IS NOT NULL;

-- DIDs that logged in to an API. A row outlives the session.
CREATE TABLE login (
    did TEXT    NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL -- the last time
) STRICT, WITHOUT ROWID;

CREATE INDEX login_at ON login (at);

-- Code writes each row that these triggers wrote.
DROP TRIGGER inbox_arrived;
DROP TRIGGER inbox_read;
DROP TRIGGER inbox_pruned;
DROP TRIGGER inbox_shared;
DROP TRIGGER share_read;
DROP TRIGGER share_pruned;
DROP TRIGGER unseen_answered;
DROP TRIGGER event_deleted;
DROP TRIGGER inbox_pushed;
DROP TRIGGER inbox_push_dropped;
DROP TRIGGER notice_pushed;
DROP TRIGGER notice_push_dropped;
DROP TRIGGER push_queues;
DROP TRIGGER push_ended;
DROP TRIGGER push_gone;
DROP TRIGGER event_pushed;
DROP TRIGGER handoff_unfollowed;
