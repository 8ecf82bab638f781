-- Version 4 finds what is due to a link without reading what waits for its time.

DROP INDEX outbox_head;
CREATE INDEX outbox_due ON outbox (link, next, rank, event, handoff) WHERE next IS NOT NULL;
