package files

import (
	"cmp"
	"errors"
	"net/http"

	"baton/bridge"
	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate/voicefile"
)

// asRefusal returns the error of a draft as a refusal, where the content of the file is the
// reason.
func asRefusal(d stepbuilder.Draft, err error) error {
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok && problem.Status < http.StatusInternalServerError {
		return &federation.RefusalError{Code: federation.InvalidTag, Event: d.ID, Handoff: d.ID, Detail: problem.Detail}
	}
	return err
}

// asNotNow returns the error of a step as the directory takes it: a step that waits on disk is no
// error, and one that was one too many for its rate is taken later. A file has no sender that could
// send it again.
func asNotNow(link string, err error) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	switch {
	case ok && refused.Waits:
		return nil
	case ok && (refused.Code == federation.RateLimited || refused.Code == federation.InboxFull):
		return away(link, errors.New(refused.Error())) // not wrapped: it is no refusal here
	}
	return err
}

// rejection returns the sidecar code of a refused offer. The contract of the sidecar has no word
// for most refusals: the detail names the code.
func rejection(refused *federation.RefusalError) *voicefile.Error {
	switch refused.Code { //nolint:exhaustive // all other codes are told in the detail
	case federation.DeadlinePassed:
		return &voicefile.Error{Code: voicefile.Expired, Detail: refused.Sentence()}
	case federation.InvalidContext:
		return &voicefile.Error{Code: voicefile.BadTranscript, Detail: refused.Error()}
	}
	return &voicefile.Error{Code: voicefile.Declined, Detail: string(refused.Code) + ": " + refused.Sentence()}
}

// ending returns the sidecar of a file whose handoff is over without success.
func ending(view federation.View, note string) *voicefile.Error {
	switch view.State {
	case federation.Declined:
		return &voicefile.Error{Code: voicefile.Declined, Detail: cmp.Or(note, "the agent declined")}
	case federation.Failed:
		return &voicefile.Error{Code: voicefile.Failed, Detail: cmp.Or(note, "the agent could not do it")}
	case federation.Cancelled:
		return &voicefile.Error{Code: voicefile.Cancelled, Detail: cmp.Or(note, "the offerer took it back")}
	case federation.Expired:
		return &voicefile.Error{Code: voicefile.Expired, Detail: cmp.Or(note, "it was not taken in time")}
	case federation.None, federation.Offered, federation.Open, federation.Assigned, federation.Completed, federation.MessageState:
	}
	return nil
}

// away is the error of a delivery that is made again later.
func away(link string, err error) error {
	return &federation.UnavailableError{What: "link " + link, Err: err}
}

// denied is the refusal of a step that has no place in a directory. The gateway tells the
// offerer.
func denied(ev federation.Event, why string) error {
	return federation.Refuse(ev, federation.PolicyDenied, why)
}

// The statuses of the answers of the hub.
const (
	hubPending   = "pending"
	hubAccepted  = "accepted"
	hubCompleted = "completed"
	hubRejected  = "rejected"
)

// hubAnswer is a JSON answer of the hub.
type hubAnswer struct {
	HandoffID string `json:"handoff_id,omitempty"`
	Status    string `json:"status,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"`

	code int // of HTTP
	file []byte
}

// hubError returns the answer to a request that failed. It shows no text of an unknown error.
func hubError(id string, err error) hubAnswer {
	if invalid, ok := errors.AsType[*voicefile.Error](err); ok {
		return hubAnswer{HandoffID: id, Status: hubRejected, Reason: invalid.Error(), code: http.StatusUnprocessableEntity}
	}
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return hubAnswer{HandoffID: id, Status: hubRejected, Reason: refused.Error(), code: http.StatusUnprocessableEntity}
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok {
		return hubAnswer{Error: "not now; try again", code: http.StatusServiceUnavailable}
	}
	return hubAnswer{Error: "something went wrong here; the log has it", code: http.StatusInternalServerError}
}
