package operatorapi

import (
	"net/http"
	"time"
)

// defaultOverlap is how long an old key is good where nobody says otherwise.
const defaultOverlap = 24 * time.Hour

// Rotation asks for another key.
type Rotation struct {
	Overlap string `json:"overlap,omitempty"` // a duration; how long what the old key signed is good
	Reason  string `json:"reason,omitempty"`
}

// postRotate answers POST keys/{name}/rotate.
func (o *Operator) postRotate(r *http.Request) (answer, error) {
	ask, overlap := Rotation{}, defaultOverlap
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	if ask.Overlap != "" {
		var err error
		if overlap, err = time.ParseDuration(ask.Overlap); err != nil {
			return answer{}, usage("overlap: want a duration, such as 24h")
		}
	}
	name := r.PathValue("name")
	key, err := o.deps.Vault.Rotate(r.Context(), name, overlap, time.Now())
	if err != nil {
		return answer{}, err
	}
	o.act(r, "keys rotate", name, ask.Reason)
	return answer{body: key}, nil
}
