package backup

import "path/filepath"

// asidePrefix begins the name of a folder, beside the record, of files that a restore replaced.
const asidePrefix = "replaced-"

// Copies returns the copies of the record in a file that a migration or a restore left beside it.
func Copies(record string) ([]string, error) {
	found := []string{}
	for _, pattern := range []string{record + ".*.bak", record + ".*.draft", filepath.Join(filepath.Dir(record), asidePrefix+"*")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		found = append(found, files...)
	}
	return found, nil
}
