package backup

import "path/filepath"

// asidePrefix begins the name of a folder, beside the record, of files that a restore replaced.
const asidePrefix = "replaced-"

// Copies returns the copies of the record of a target: copies left beside it by a migration or a
// restore, drafts of an interrupted restore, and leftovers of killed backups.
func Copies(of Target) ([]string, error) {
	r := restoration{to: of}
	patterns := []string{r.recordDraft(), filepath.Join(of.Dir, leftoverPrefix+"*", recordMember), filepath.Join(filepath.Dir(r.recordDraft()), asidePrefix+"*")}
	if of.Record != "" {
		patterns = append(patterns, of.Record+".*.bak", of.Record+".*.draft")
	}
	found := []string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		found = append(found, files...)
	}
	return found, nil
}
