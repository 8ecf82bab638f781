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

-- Code writes each row that these triggers wrote.
DROP TRIGGER inbox_arrived ON inbox;
DROP TRIGGER inbox_read ON inbox;
DROP TRIGGER inbox_pruned ON inbox;
DROP TRIGGER inbox_shared ON inbox;
DROP TRIGGER share_read ON inbox;
DROP TRIGGER share_pruned ON inbox;
DROP TRIGGER inbox_pushed ON inbox;
DROP TRIGGER inbox_push_dropped ON inbox;
DROP TRIGGER unseen_answered ON handoff;
DROP TRIGGER handoff_unfollowed ON handoff;
DROP TRIGGER event_deleted ON event;
DROP TRIGGER event_pushed ON event;
DROP TRIGGER notice_pushed ON notice;
DROP TRIGGER notice_push_dropped ON notice;
DROP TRIGGER push_queues ON push;
DROP TRIGGER push_ended ON push;
DROP TRIGGER push_gone ON push;
DROP FUNCTION unseen_answered(), inbox_arrived(), inbox_read(), inbox_pruned(), inbox_shared(), share_ended(),
    event_deleted(), inbox_pushed(), inbox_push_dropped(), notice_pushed(), notice_push_dropped(), push_queues(),
    push_ended(), push_gone(), event_pushed(), handoff_unfollowed();
