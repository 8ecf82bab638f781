package voicefile

// Number is number.
func Number(literal string) string { return number(literal) }
