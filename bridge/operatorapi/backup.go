package operatorapi

import (
	"io"
	"net/http"
)

// postBackup answers POST backup with a tar file of record and keys. Who has it can
// sign as the gateway: it goes to whoever may open the socket, and to the log.
func (o *Operator) postBackup(w http.ResponseWriter, r *http.Request) {
	archive, err := o.deps.Vault.Backup(r.Context())
	if err != nil {
		o.tell(w, r, err)
		return
	}
	defer archive.Close()
	o.act(r, "backup", "record and keys", "")
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.Copy(w, archive) // a client that gets less finds the archive cut short
}
