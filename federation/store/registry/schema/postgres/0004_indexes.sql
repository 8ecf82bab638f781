-- Version 4 finds the message of one step of a handoff without reading the others.

DROP INDEX message_handoff;
CREATE INDEX message_handoff ON message (handoff, event) WHERE handoff IS NOT NULL;
