package passport

// Link returns the chain after a step.
func (s Step) Link(before string) (string, error) { return s.link(before) }
