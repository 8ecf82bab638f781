package federation

// vouchingTags are the tags, without the name of their dialect, with which a gateway says
// for which DID it signs and from what. A reader takes a step that has one for vouched.
func vouchingTags() []string { return []string{"-for", "-src", "-src-h"} }

// CheckVouching refuses a step that carries a tag of vouching and that no home vouches for: a
// person signs for itself alone, and a reader would take the address in such a tag for
// evidence. A home vouches by writing the step itself, or by passing it on. The refusal names
// the tag, after the prefix.
//
// spec: handofftag "Tags", handoff-src, -src-h, -for
func CheckVouching(ev Event, prefix string) error {
	if ev.Provenance == Vouched || ev.Arrival.Home != "" {
		return nil
	}
	for _, tag := range vouchingTags() {
		name := string(ev.Dialect) + tag
		if _, there := ev.Fields[name]; there {
			return Refuse(ev, InvalidTag, prefix+name+": only a home writes it")
		}
	}
	return nil
}
