package contract

// Change is something that an operator did.
type Change struct {
	Time    Moment `json:"time"`
	Actor   string `json:"actor"`
	What    string `json:"what"`
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}
