package registry

import (
	"baton/federation/agents"
	"baton/federation/store/engine"
)

// SQL implements [engine.Tables].
func (Tables) SQL() engine.SQL {
	return engine.SQL{
		Schema: schema,
		Known: `(EXISTS (SELECT 1 FROM agent WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM agent WHERE own_did = ?1)
			OR EXISTS (SELECT 1 FROM agent_key WHERE did = ?1))`,
		Used: `EXISTS (SELECT 1 FROM agent WHERE handle > '')`,
		Reached: `(EXISTS (SELECT 1 FROM agent a WHERE a.did = i.did OR a.own_did = i.did)
			OR EXISTS (SELECT 1 FROM agent_key k WHERE k.did = i.did)
			OR EXISTS (SELECT 1 FROM event o JOIN bound_name n ON n.did = i.did AND n.network = '` + agents.Link + `'
				JOIN message m ON m.recipient = n.name AND m.event = o.id WHERE o.seq = i.event))`,
		Deliveries: `SELECT s.seq, s.id, '` + agents.Link + `', m.recipient,
				CASE WHEN m.ended IS NOT NULL THEN m.outcome WHEN h.state = 'expired' THEN 'expired' ELSE 'waiting' END, 0, 0, '',
				CASE WHEN m.ended IS NOT NULL THEN m.ended WHEN h.state = 'expired' THEN h.moved ELSE 0 END
			FROM message m JOIN event s ON s.id = m.event AND s.handoff || '' = m.handoff JOIN agent a ON a.handle = m.recipient JOIN handoff h ON h.id = m.handoff
			WHERE m.handoff = ?1 AND s.version > 0`,
		Orphans: []string{
			`SELECT 'keys of agent ' || k.handle, 'are of nobody' FROM agent_key k
				WHERE NOT EXISTS (SELECT 1 FROM agent a WHERE a.handle = k.handle)`,
			`SELECT 'skill ' || s.skill, 'is of nobody' FROM agent_skill s
				WHERE NOT EXISTS (SELECT 1 FROM agent a WHERE a.n = s.agent)`,
		},
		PeerDeliveryStep: `(SELECT s.seq FROM message m JOIN event s ON s.id = m.event AND s.handoff || '' = m.handoff
			WHERE m.id = r.message AND m.sender = r.sender ORDER BY m.n DESC LIMIT 1)`,
		PeerDeliveryTold: `EXISTS (SELECT 1 FROM agent WHERE handle = ?1)`,
		Waiting: `SELECT ?2, m.n, coalesce(m.handoff, m.sender), m.received FROM agent a JOIN message m ON m.recipient = a.handle
			AND m.position > a.shown AND m.deleted = 0 WHERE a.handle = ?1`,
		ItemStep:   `(SELECT e.seq FROM message m JOIN event e ON e.id = m.event AND e.handoff || '' = m.handoff WHERE m.n = ?1)`,
		ItemSender: `(SELECT m.sender FROM message m WHERE m.n = p.item)`,
		ItemsNamed: `SELECT n FROM message WHERE recipient = ?4 AND (event = ?3 OR id = ?3)`,
		StepItem:   `(SELECT m.n FROM event e JOIN message m ON m.recipient = h.participant AND m.event = e.id WHERE e.seq = ?2)`,
	}
}
