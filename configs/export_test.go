package configs

// IndexLines gives the tests of this package the line index.
func IndexLines(text string) map[string]int { return indexLines(text) }
