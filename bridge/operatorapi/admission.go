package operatorapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"baton/federation"
)

// Admission decides which callers may ask. It returns a name for the audit log, a
// [*ProblemError] for a caller that is refused, or an error wrapping
// [*federation.UnavailableError] when that cannot be decided now. It may be called
// concurrently, and more than once for a long request.
type Admission func(r *http.Request, needs federation.Scope) (actor string, err error)

// Everybody admits each caller that can connect, under the name that the listener gave it:
// the permissions of a socket decide which processes can open it.
func Everybody(r *http.Request, _ federation.Scope) (string, error) { return r.RemoteAddr, nil }

func errUnauthorized(detail string) error {
	return &ProblemError{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Detail: detail}
}

// callerKey is where the context of a request has its [caller].
type callerKey struct{}

// caller is an admitted caller.
type caller struct {
	actor string
	still func() error // nil while they would be admitted again
}

// callerOf returns the caller of an admitted request.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// Admitted serves the requests that an admission lets in, and answers the others with its
// refusal.
func (o *Operator) Admitted(admit Admission, needs federation.Scope, serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, err := admit(r, needs)
		if err != nil {
			if _, turnedAway := errors.AsType[*ProblemError](err); turnedAway {
				o.deps.Log.LogAttrs(r.Context(), slog.LevelInfo, "operator turned away", slog.String("network", network),
					slog.String("path", r.URL.Path), slog.String("actor", r.RemoteAddr), slog.Any("err", err))
			}
			o.tell(w, r, err)
			return
		}
		still := func() error { _, err := admit(r, needs); return err }
		serve.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{actor, still})))
	})
}
