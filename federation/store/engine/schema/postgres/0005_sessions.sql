-- Version 5 of the record in PostgreSQL. The version in the parent folder describes the columns.

ALTER TABLE session
    ADD COLUMN ends    bigint NOT NULL DEFAULT 0,
    ADD COLUMN began   text COLLATE "C" NOT NULL DEFAULT 'refresh',
    ADD COLUMN key_id  text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN bound   bigint NOT NULL DEFAULT 0,
    ADD COLUMN created bigint NOT NULL DEFAULT 0,
    ADD COLUMN used    bigint NOT NULL DEFAULT 0,
    ADD COLUMN address text COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE inbox ADD COLUMN session text COLLATE "C";
CREATE INDEX inbox_session ON inbox (session) WHERE session IS NOT NULL;

ALTER TABLE webhook
    ADD COLUMN key_id  text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN unbound text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN ends    bigint NOT NULL DEFAULT 0;

CREATE INDEX webhook_unbound ON webhook (unbound) WHERE unbound <> '';

ALTER TABLE outbox ADD COLUMN signer text COLLATE "C" NOT NULL DEFAULT '';
UPDATE outbox SET signer = coalesce((SELECT e.signer FROM event e WHERE e.seq = outbox.event), '');
CREATE INDEX outbox_turn ON outbox (link, signer, next, rank, event, handoff) WHERE next IS NOT NULL;

CREATE TABLE login (
    did text COLLATE "C" NOT NULL PRIMARY KEY,
    at  bigint           NOT NULL
);

CREATE INDEX login_at ON login (at);
