package translatetest

import "slices"

// Way is the direction of a translation.
type Way string

// The directions.
const (
	In  Way = "in"
	Out Way = "out"
)

// Place is the place of a member on the other side.
type Place string

// The places.
const (
	Kept     Place = "kept"     // in a member of its own
	Moved    Place = "moved"    // in another member
	Carried  Place = "carried"  // in a member that gateways add to the format
	Evident  Place = "evidence" // only in the evidence of the step
	NotTaken Place = "lost"
)

// Fidelity is one row of the fidelity table of a format: the treatment of one member in one
// direction.
type Fidelity struct {
	Way   Way
	Field string
	Place Place
	Where string
}

// Row returns a row of a fidelity table.
func Row(way Way, field string, place Place, where string) Fidelity {
	return Fidelity{Way: way, Field: field, Place: place, Where: where}
}

// Placed returns the fields of a direction with one of some places.
func Placed(table []Fidelity, way Way, places ...Place) []string {
	var fields []string
	for _, row := range table {
		if row.Way == way && slices.Contains(places, row.Place) {
			fields = append(fields, row.Field)
		}
	}
	return fields
}
