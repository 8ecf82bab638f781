package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// memoryWebhook is a webhook with its deliveries, pending and ended, in order.
type memoryWebhook struct {
	federation.Webhook

	pushes []*memoryPush
	due    time.Time // when the waiting pushes are due, set by LetGo; zero for their own times
	taken  time.Time
}

type memoryPush struct {
	federation.Push

	orderKey string
	tries    []federation.Try
}

// hook returns nil for an unknown id.
func (m *Memory) hook(id federation.WebhookID) *memoryWebhook {
	if i := slices.IndexFunc(m.webhooks, func(h *memoryWebhook) bool { return h.ID == id }); i >= 0 {
		return m.webhooks[i]
	}
	return nil
}

// AddWebhook implements [Webhooks].
func (m *Memory) AddWebhook(ctx context.Context, h federation.Webhook, most int) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if !m.hasSessionID(h.Session) {
		return federation.ErrSessionEnded
	}
	h.Session = ""
	has := 0
	for _, on := range m.webhooks {
		switch {
		case on.DID != h.DID, on.Handoff != h.Handoff:
		case on.URL == h.URL && on.Label == h.Label:
			return federation.ErrTaken
		default:
			has++
		}
	}
	if has >= most {
		return federation.ErrTooManyWebhooks
	}
	hook := &memoryWebhook{Webhook: h}
	m.webhooks = append(m.webhooks, hook)
	slices.SortFunc(m.webhooks, func(a, b *memoryWebhook) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	m.pushWaiting(hook)
	return nil
}

// pushWaiting queues the entries that wait in the inbox of a webhook.
func (m *Memory) pushWaiting(h *memoryWebhook) {
	for _, p := range h.pushes {
		if !h.Handoff.IsZero() && p.State == federation.DeliveryRefused {
			p.again(time.Time{})
		}
	}
	if h.Participant == "" && h.Handoff.IsZero() {
		for _, row := range m.inboxes[h.DID] {
			if !row.read {
				m.pushEntry(h, row.entry)
			}
		}
	}
	for _, on := range m.messages {
		if on.positionIn(h.Participant) > m.shown[h.Participant] && !on.deleted {
			m.pushMessage(h, on)
		}
	}
}

func (m *Memory) pushEntry(h *memoryWebhook, entry federation.Entry) {
	m.queuePush(h, federation.Push{Entry: entry, Queued: entry.Filed}, entry.Event.Handoff.String())
}

// queuePush queues a delivery, or again a refused one.
func (m *Memory) queuePush(h *memoryWebhook, p federation.Push, orderKey string) {
	for _, on := range h.pushes {
		if on.Notice.Kind == "" && on.Entry.Number == p.Entry.Number && on.Entry.Version == p.Entry.Version && messageIn(on.Push).ID == messageIn(p).ID && messageIn(on.Push).From == messageIn(p).From {
			if on.State == federation.DeliveryRefused {
				on.again(time.Time{})
			}
			return
		}
	}
	m.lastPush++
	p.Item, p.State = m.lastPush, federation.DeliveryWaiting
	h.push(&memoryPush{Push: p, orderKey: orderKey})
}

// push queues a delivery, which is due at once unless an earlier one is queued.
func (h *memoryWebhook) push(p *memoryPush) {
	if !slices.ContainsFunc(h.pushes, func(on *memoryPush) bool { return on.orderKey == p.orderKey && on.State == federation.DeliveryWaiting }) {
		h.due = time.Time{}
	}
	h.pushes = append(h.pushes, p)
}

// messageIn returns the message of a push, the zero one where that is of something else.
func messageIn(p federation.Push) agents.Message {
	m, _ := p.Content.(agents.Message)
	return m
}

func (m *Memory) pushMessage(h *memoryWebhook, on *memoryMessage) {
	m.queuePush(h, federation.Push{Content: on.Message, Queued: on.Received}, cmp.Or(on.Handoff.String(), on.From))
}

// pushFiled queues a filed entry for the webhooks of its inbox.
func (m *Memory) pushFiled(did federation.DID, entry federation.Entry) {
	for _, h := range m.webhooks {
		if h.DID == did && h.Participant == "" && h.Handoff.IsZero() && h.Disabled.IsZero() {
			m.pushEntry(h, entry)
		}
	}
}

// pushFollowed queues a filed step for the webhooks that follow its handoff.
func (m *Memory) pushFollowed(entry federation.Entry) {
	for _, h := range m.webhooks {
		if h.Handoff == entry.Event.Handoff && h.Disabled.IsZero() {
			m.pushEntry(h, entry)
		}
	}
}

// queuePushes queues a delivered message for the webhooks of its agent.
func (m *Memory) queuePushes(on *memoryMessage) {
	for _, h := range m.webhooks {
		if h.Participant == on.To && h.Disabled.IsZero() {
			m.pushMessage(h, on)
		}
	}
}

// firstNotice is where the items of notices begin.
const firstNotice = 1 << 52

// queueNoticePushes queues a notice for the webhooks of its reader's inbox.
func (m *Memory) queueNoticePushes(on memoryNotice) {
	for _, h := range m.webhooks {
		if h.DID == on.Reader() && h.Participant == "" && h.Handoff.IsZero() && h.Disabled.IsZero() {
			orderKey := cmp.Or(on.Event.Handoff.String(), on.About().String())
			p := federation.Push{Notice: on.read(), Queued: on.At, Item: firstNotice + int64(on.place), State: federation.DeliveryWaiting}
			h.push(&memoryPush{Push: p, orderKey: orderKey})
		}
	}
}

// unpushNotice deletes the deliveries of a notice.
func (m *Memory) unpushNotice(on memoryNotice) {
	for _, h := range m.webhooks {
		h.pushes = slices.DeleteFunc(h.pushes, func(p *memoryPush) bool { return p.Item == firstNotice+int64(on.place) })
	}
}

// inOrder returns the pushes by item.
func (h *memoryWebhook) inOrder() []*memoryPush {
	return slices.SortedFunc(slices.Values(h.pushes), func(a, b *memoryPush) int { return cmp.Compare(a.Item, b.Item) })
}

// heads returns the pushes that wait behind no other with their order key, or were put back.
func (h *memoryWebhook) heads() []*memoryPush {
	var heads []*memoryPush
	begun := map[string]bool{}
	for _, p := range h.inOrder() {
		if p.State != federation.DeliveryWaiting {
			continue
		}
		if !begun[p.orderKey] || !p.Next.IsZero() {
			heads = append(heads, p)
		}
		begun[p.orderKey] = true
	}
	slices.SortStableFunc(heads, func(a, b *memoryPush) int { return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.Item, b.Item)) })
	return heads
}

// isDue reports whether a delivery to a webhook is due at a time.
func (h *memoryWebhook) isDue(now time.Time) bool {
	heads := h.heads()
	return h.Disabled.IsZero() && (h.Over(now) || len(heads) > 0 && !heads[0].Next.After(now))
}

// read returns a push as it is read: with its cursor, as its inbox has it now.
func (m *Memory) read(h *memoryWebhook, p *memoryPush) federation.Push {
	push := p.Push
	if push.Notice.Kind != "" {
		return push
	}
	if h.Participant != "" {
		message := messageIn(push)
		if i := slices.IndexFunc(m.messages, func(on *memoryMessage) bool {
			return on.To == h.Participant && on.ID == message.ID && on.From == message.From
		}); i >= 0 {
			message = m.readMessage(m.messages[i])
			message.Cursor = cursor("handle "+h.Participant, m.messages[i].position)
			push.Content = message
		}
		return push
	}
	for _, row := range m.inboxes[h.DID] {
		if row.entry.Number == push.Entry.Number {
			push.Entry = m.at(row, h.DID)
		}
	}
	return push
}

// Webhook implements [Webhooks].
func (m *Memory) Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Webhook{}, err
	}
	if h := m.hook(id); h != nil {
		return h.Webhook, nil
	}
	return federation.Webhook{}, federation.ErrNotFound
}

// Webhooks implements [Webhooks].
func (m *Memory) Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	var found []federation.Webhook
	for _, h := range m.webhooks {
		if (of == "" || h.DID == of && h.Handoff.IsZero()) && h.ID.String() > after.String() && len(found) < limit {
			found = append(found, h.Webhook)
		}
	}
	return found, err
}

// Followers implements [Webhooks].
func (m *Memory) Followers(ctx context.Context, of federation.DID, id federation.HandoffID) ([]federation.Webhook, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	var found []federation.Webhook
	for _, h := range m.webhooks {
		if h.DID == of && h.Handoff == id && !id.IsZero() {
			found = append(found, h.Webhook)
		}
	}
	return found, err
}

// changeWebhook changes a webhook, or returns [federation.ErrNotFound].
func (m *Memory) changeWebhook(ctx context.Context, id federation.WebhookID, change func(*memoryWebhook)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	h := m.hook(id)
	if h == nil {
		return federation.ErrNotFound
	}
	change(h)
	return nil
}

// RemoveWebhook implements [Webhooks].
func (m *Memory) RemoveWebhook(ctx context.Context, id federation.WebhookID) error {
	return m.changeWebhook(ctx, id, func(*memoryWebhook) {
		m.webhooks = slices.DeleteFunc(m.webhooks, func(on *memoryWebhook) bool { return on.ID == id })
		m.forgetDead(func(d *memoryDead) bool { return d.letter.To == federation.WebhookName(id) })
	})
}

// DisableWebhook implements [Webhooks].
func (m *Memory) DisableWebhook(ctx context.Context, id federation.WebhookID, why string, now time.Time) error {
	return m.changeWebhook(ctx, id, func(h *memoryWebhook) {
		if !h.Disabled.IsZero() {
			return
		}
		h.Disabled, h.Why, h.Ends = now, why, time.Time{}
		for _, p := range h.pushes {
			if p.State == federation.DeliveryWaiting {
				p.State, p.Next, p.Reason, p.Ended = federation.DeliveryRefused, time.Time{}, why, now
			}
		}
		m.notifyDisabled(h.Webhook, now)
	})
}

// EnableWebhook implements [Webhooks].
func (m *Memory) EnableWebhook(ctx context.Context, as federation.Webhook) error {
	return m.changeWebhook(ctx, as.ID, func(h *memoryWebhook) {
		if !h.Disabled.IsZero() {
			h.Disabled, h.Why, h.due = time.Time{}, "", time.Time{}
			h.Key, h.Unbound, h.Ends = as.Key, as.Unbound, as.Ends
			m.pushWaiting(h)
			for _, p := range h.pushes {
				if p.Notice.Kind != "" && p.State == federation.DeliveryRefused {
					p.again(time.Time{})
				}
			}
		}
	})
}

// TakeWebhooks implements [Webhooks].
func (m *Memory) TakeWebhooks(ctx context.Context, now, until time.Time, limit int) ([]federation.Webhook, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var due []*memoryWebhook
	for _, h := range m.webhooks {
		if h.isDue(now) && !h.due.After(now) && !h.taken.After(now) {
			due = append(due, h)
		}
	}
	slices.SortStableFunc(due, func(a, b *memoryWebhook) int { return a.due.Compare(b.due) })
	var taken []federation.Webhook
	for _, h := range due[:min(len(due), max(limit, 0))] {
		h.taken = until
		taken = append(taken, h.Webhook)
	}
	return taken, nil
}

// NextDue implements [Webhooks].
func (m *Memory) NextDue(ctx context.Context, after time.Time) (next time.Time, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	for _, h := range m.webhooks {
		heads := h.heads()
		if !h.Disabled.IsZero() || len(heads) == 0 {
			continue
		}
		due := heads[0].Next
		if h.due.After(due) {
			due = h.due
		}
		if due.After(after) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next, err
}

// LetGo implements [Webhooks].
func (m *Memory) LetGo(ctx context.Context, id federation.WebhookID, at time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if h := m.hook(id); h != nil && err == nil {
		h.taken, h.due = time.Time{}, time.Time{}
		if h.isDue(at) {
			h.due = at
		}
	}
	return err
}

// DuePushes implements [Webhooks].
func (m *Memory) DuePushes(ctx context.Context, id federation.WebhookID, now time.Time, limit int) (due []federation.DuePush, err error) {
	err = m.changeWebhook(ctx, id, func(h *memoryWebhook) {
		first := map[string]int{} // place in due of each order key
		for _, p := range h.heads() {
			if p.Next.After(now) || h.Over(now) || limit <= 0 {
				break
			}
			limit--
			d := federation.DuePush{Item: p.Item, Sender: cmp.Or(messageIn(p.Push).From, string(p.Entry.Event.From))}
			if at, begun := first[p.orderKey]; !begun {
				first[p.orderKey] = len(due)
				due = append(due, d)
			} else if d.Item < due[at].Item {
				due[at] = d
			}
		}
	})
	return due, err
}

// DuePush implements [Webhooks].
func (m *Memory) DuePush(ctx context.Context, id federation.WebhookID, item int64, now time.Time) (p federation.Push, err error) {
	none := federation.ErrNotFound
	err = m.changeWebhook(ctx, id, func(h *memoryWebhook) {
		for _, on := range h.heads() {
			if on.Item == item && !h.Over(now) && !on.Next.After(now) {
				p, none = m.read(h, on), nil
			}
		}
	})
	return p, cmp.Or(err, none)
}

// changePush changes a push that waits. One that does not is no error.
func (m *Memory) changePush(ctx context.Context, id federation.WebhookID, item int64, change func(*memoryWebhook, *memoryPush)) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	h := m.hook(id)
	if err != nil || h == nil {
		return err
	}
	for _, p := range h.pushes {
		if p.Item == item && p.State == federation.DeliveryWaiting {
			change(h, p)
		}
	}
	return nil
}

// PushFailed implements [Webhooks].
func (m *Memory) PushFailed(ctx context.Context, id federation.WebhookID, item int64, f federation.Failure) error {
	return m.changePush(ctx, id, item, func(_ *memoryWebhook, p *memoryPush) {
		p.Next = f.Next
		p.fail(f.Reason, f.At)
	})
}

// fail counts an attempt, and remembers the last of them.
func (p *memoryPush) fail(reason string, at time.Time) {
	p.Attempt++
	p.Reason = reason
	p.tries = append(p.tries, federation.Try{Number: p.Attempt, At: at, Reason: reason})
	p.tries = p.tries[max(0, len(p.tries)-federation.MaxTries):]
}

// PushEnded implements [Webhooks].
func (m *Memory) PushEnded(ctx context.Context, id federation.WebhookID, item int64, how federation.Settlement) error {
	return m.changePush(ctx, id, item, func(h *memoryWebhook, p *memoryPush) {
		p.State, p.Next, p.Ended = how.Outcome(), time.Time{}, how.At
		if p.State != federation.DeliveryDelivered {
			p.fail(how.Why, how.At)
		} else {
			p.Reason = ""
			for i, row := range m.inboxes[h.DID] {
				if row.entry.Event.Handoff == p.Entry.Event.Handoff && row.entry.Version == p.Entry.Version {
					m.end(h.DID, &m.inboxes[h.DID][i], federation.DeliveryDelivered, how.At)
				}
			}
		}
		if how.Dead != "" && p.Notice.Kind == "" && !p.Handoff().IsZero() {
			m.buryPush(h, p, how)
		}
	})
}

// buryPush files the dead letter of a push.
func (m *Memory) buryPush(h *memoryWebhook, p *memoryPush, how federation.Settlement) {
	for _, e := range m.entries {
		if e.Event.ID.String() == p.Ref() && e.Event.Handoff == p.Handoff() {
			m.bury(memoryDead{push: p, webhook: h}, federation.DeadLetter{
				To: federation.WebhookName(h.ID), Event: e.Event.ID, Handoff: e.Event.Handoff, Verb: e.Event.Verb, Attempt: p.Attempt, Queued: p.Queued,
				Raw: []byte(e.Event.Signature.Document), Signature: e.Event.Signature.Text, Tries: p.tries,
			}, how)
			return
		}
	}
}

// again puts a push back, to be made at a time, or with the zero one in its turn.
func (p *memoryPush) again(now time.Time) {
	p.State, p.Next, p.Attempt, p.Ended, p.Reason = federation.DeliveryWaiting, now, 0, time.Time{}, ""
}

// PushAgain implements [Webhooks].
func (m *Memory) PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (again int, err error) {
	err = m.changeWebhook(ctx, id, func(h *memoryWebhook) {
		if !h.Disabled.IsZero() {
			return
		}
		h.due = time.Time{}
		for _, p := range h.pushes {
			if ref == "" && p.State != federation.DeliveryDelivered || ref != "" && (p.Ref() == ref || messageIn(p.Push).ID == ref) {
				p.again(now)
				again++
			}
		}
		for _, d := range m.dead {
			if d.webhook == h && d.letter.Replayed.IsZero() && (ref == "" || d.letter.Event.String() == ref) {
				d.letter.Replayed = now
			}
		}
	})
	return again, err
}

// Pushes implements [Webhooks].
func (m *Memory) Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) (found []federation.Push, err error) {
	err = m.changeWebhook(ctx, id, func(h *memoryWebhook) {
		for _, p := range slices.Backward(h.inOrder()) {
			if (before == 0 || p.Item < before) && len(found) < limit {
				found = append(found, m.read(h, p))
			}
		}
	})
	return found, err
}

// WebhookBacklog implements [Webhooks].
func (m *Memory) WebhookBacklog(ctx context.Context, id federation.WebhookID) (b federation.WebhookBacklog, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if h := m.hook(id); h != nil && err == nil {
		b = h.backlog()
	}
	return b, err
}

func (h *memoryWebhook) backlog() (b federation.WebhookBacklog) {
	for _, p := range h.pushes {
		switch p.State { //nolint:exhaustive // the others are counted nowhere
		case federation.DeliveryWaiting:
			b.Rows++
			if b.Oldest.IsZero() || p.Queued.Before(b.Oldest) {
				b.Oldest = p.Queued
			}
		case federation.DeliveryDead:
			b.Dead++
		}
	}
	return b
}

// WebhooksBacklog implements [Webhooks].
func (m *Memory) WebhooksBacklog(ctx context.Context) (b federation.Backlog, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	for _, h := range m.webhooks {
		one := h.backlog()
		b.Rows += one.Rows
		if !one.Oldest.IsZero() && (b.Oldest.IsZero() || one.Oldest.Before(b.Oldest)) {
			b.Oldest = one.Oldest
		}
	}
	return b, err
}

// pushedTo returns the state of a step on its way to the webhooks of inboxes.
func (m *Memory) pushedTo(event federation.EventID) []federation.Delivered {
	var found []federation.Delivered
	for _, h := range m.webhooks {
		for _, p := range h.pushes {
			if h.Participant != "" || p.Entry.Event.ID != event {
				continue
			}
			reason := p.Reason
			switch p.State { //nolint:exhaustive // the others have none
			case federation.DeliveryDead:
				reason = string(federation.DeadFailed)
			case federation.DeliveryRefused:
				reason = "gone"
			}
			found = append(found, federation.Delivered{
				Event: event, Link: federation.WebhookLink, Participant: string(h.DID), State: p.State, Attempt: p.Attempt, Next: p.Next, Reason: reason, Ended: p.Ended,
			})
		}
	}
	return found
}

// unpush deletes the deliveries of a handoff to webhooks.
func (m *Memory) unpush(id federation.HandoffID) {
	m.webhooks = slices.DeleteFunc(m.webhooks, func(h *memoryWebhook) bool { return h.Handoff == id })
	for _, h := range m.webhooks {
		h.pushes = slices.DeleteFunc(h.pushes, func(p *memoryPush) bool { return p.Notice.Kind == "" && p.Handoff() == id })
	}
}
