package irc

// Fits reports whether a line is as a pattern says.
func Fits(text, line string) bool { return parsePattern(text).fits(line) }
