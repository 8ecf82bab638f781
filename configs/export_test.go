package configs

// MaxCertificateBytes gives the tests of this package the bound.
const MaxCertificateBytes = maxCertificateBytes

// IndexLines gives the tests of this package the line index.
func IndexLines(text string) map[string]int { return indexLines(text) }
