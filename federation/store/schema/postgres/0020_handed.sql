ALTER TABLE message
    ADD COLUMN ended   bigint,
    ADD COLUMN outcome text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN slow    bigint NOT NULL DEFAULT 0;

UPDATE message SET ended = received, outcome = 'delivered' WHERE event IS NOT NULL AND seq IS NOT NULL;

CREATE INDEX message_waits ON message (slow, told) WHERE event IS NOT NULL AND ended IS NULL AND slow < 2;
