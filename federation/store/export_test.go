package store

import (
	"reflect"
	"slices"
)

// Queries returns all queries of a record so far. The engine keeps them in its parsed statements.
func (s *Record) Queries() (all []string) {
	db := reflect.ValueOf(s.db).Elem()
	for _, statements := range []reflect.Value{db.FieldByName("reads"), db.FieldByName("writes").Elem().FieldByName("writer").Elem().FieldByName("statements")} {
		for query := range statements.Elem().FieldByName("kept").Seq2() {
			all = append(all, query.String())
		}
	}
	return slices.Clip(all)
}
