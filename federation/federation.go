// Package federation defines the terms of the gateway: handoffs, their steps, and the verdicts and
// refusals on these steps.
//
// It opens no socket, reads no clock, writes no log and does not depend on a network. Networks are in
// bridge, wire formats in translate, and the record in federation/store.
//
// The main types, in the order in which a step passes through them:
//
//   - [Event] is one signed step. [Event.Arrival] describes its arrival.
//   - [Verdict] is the result of checking its signature.
//   - [View] is the state of a handoff. [Snapshot] contains the data for judging a step.
//   - [RefusalError] is final, with a code for machines. [UnavailableError] is temporary.
//   - [Filing] is a judged step with all changes of its filing.
//   - [Fanout] names the links and homes that receive the step, each by a [Delivery].
//   - [Notice] reports a later outcome of the step to its signer.
//
// A participant is a DID, or a name on a link. Inboxes, notices, webhooks, sessions and declared
// capabilities belong to participants, so a new network needs no table of its own.
//
// Terms:
//
//   - Home: the gateway or server that created a handoff. Only it orders the steps, and it confirms
//     each one with a [Ruling] or a receipt.
//   - Remote handoff: its home is another gateway.
//   - Mailbox home: the gateway that owns delivery to a DID, see [MailboxLocation].
//   - Outbox: the pending deliveries of one link or home.
//   - Lease: the exclusive right of one replica to do a job, or of one device to process an inbox entry.
//   - Tombstone: the ID of a pruned step, so that no step is filed twice.
//   - Order key: deliveries with the same key are made in order.
//
// All types are values. They may be copied, and shared between goroutines until one writes to their maps
// or slices.
package federation
