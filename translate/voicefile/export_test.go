package voicefile

func Number(literal string) string { return number(literal) }
