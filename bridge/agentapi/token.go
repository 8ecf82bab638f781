package agentapi

// token is a channel that has something in it once there is something to do.
type token chan struct{}

func newToken() token { return make(token, 1) }

// put sees that there is something in it.
func (t token) put() {
	select {
	case t <- struct{}{}:
	default:
	}
}
