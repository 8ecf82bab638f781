// Package federation is the language of the gateway: handoffs, the steps that move them,
// and the verdicts and refusals on those.
//
// It holds types and rules. Each package declares the ports that it uses itself; what a
// record promises about them is in the suites of federationtest. Package federation opens no socket, reads no clock, writes no
// log and knows no database: networks live in bridge, wire formats in translate,
// the record in federation/store. Where time matters it is an argument.
//
// The way of one step: a network's translator decodes a wire message into an
// [Event]; the home verifies who signed it ([Verdict]), judges it against the
// [View] of its handoff, and files it in the record ([Filing]) together with the
// inboxes and feeds that it is owed to; a feed hands it to each [Delivery]'s
// link, whose translator encodes it again. A step that is turned away is a
// [RefusalError], for good, or an [UnavailableError], for now.
//
// All types are values, safe to copy and to share between goroutines as long as
// nobody writes to the maps and slices in them.
package federation
