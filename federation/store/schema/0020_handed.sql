-- A step reaches an agent when it is handed out, which is later than its message is in the
-- inbox. Those of before count as they did then.
ALTER TABLE message ADD COLUMN ended   INTEGER;                    -- NULL while its step waits, and of no step
ALTER TABLE message ADD COLUMN outcome TEXT    NOT NULL DEFAULT ''; -- '' until it ended
ALTER TABLE message ADD COLUMN slow    INTEGER NOT NULL DEFAULT 0;  -- 1 when the signer was told that it takes time, 2 where nobody reads it here

UPDATE message SET ended = received, outcome = 'delivered' WHERE event IS NOT NULL AND seq IS NOT NULL;

CREATE INDEX message_waits ON message (slow, told) WHERE event IS NOT NULL AND ended IS NULL AND slow < 2;
