package contract

// Link is a link as it stands.
type Link struct {
	Name      string `json:"name"`
	Network   string `json:"network"`
	State     string `json:"state"`
	LastHeard Moment `json:"last_heard,omitzero"`
	Waiting   int    `json:"waiting"`         // steps that it is owed
	Oldest    Moment `json:"oldest,omitzero"` // when the oldest of them was filed
	NextDial  Moment `json:"next_dial,omitzero"`
	LastError string `json:"last_error"`

	*LinkDetail // of one link alone
}

// LinkDetail is what is told of a link that was asked for by its name.
type LinkDetail struct {
	Negotiated  map[string]string `json:"negotiated"`
	Channels    []string          `json:"channels"`
	Limits      LinkLimits        `json:"limits"`
	SkewSeconds float64           `json:"skew_seconds"` // by which our clock is ahead
	NotCarried  []string          `json:"not_carried"`
	Obstacles   []string          `json:"obstacles,omitempty"` // what keeps deliveries or receipts from passing
}

// LinkLimits is what a link lets in. Zero is no limit.
type LinkLimits struct {
	UserEventsPerMinute int `json:"user_events_per_minute"`
	LinkEventsPerSecond int `json:"link_events_per_second"`
}
