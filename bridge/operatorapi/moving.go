package operatorapi

import (
	"net/http"

	"baton/federation"
)

// Move is the body of a request to give a mailbox to another home.
type Move struct {
	Act

	Home string `json:"home"`
}

// Moved is what came of that.
type Moved struct {
	DID     federation.DID `json:"did"`
	Home    string         `json:"home"`    // where its mailbox is now
	Taken   int            `json:"taken"`   // entries that went along
	Waiting int            `json:"waiting"` // entries that are still here
}

// postMove answers POST inboxes/{did}/move.
func (o *Operator) postMove(r *http.Request) (answer, error) {
	did, err := parseDID("did", r.PathValue("did"))
	if err != nil {
		return answer{}, err
	}
	var ask Move
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	done, err := o.deps.Mailboxes.MoveInbox(r.Context(), did, federation.HomeID(ask.Home), ask.DryRun)
	if err != nil {
		return answer{}, err
	}
	if !ask.DryRun {
		o.act(r, "inbox move", string(did)+" "+ask.Home, ask.Reason)
	}
	return answer{body: done}, nil
}
