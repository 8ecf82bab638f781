package operatorapi

import (
	"context"

	"baton/bridge/route"
)

// backup answers with a tar file of the record and the keys. Its holder can sign as the gateway, so
// that the audit log has each copy. A client that receives less than all finds the archive cut short.
func (o *Operator) backup(ctx context.Context, _ struct{}) (route.File, error) {
	archive, err := o.deps.Server.Backup(ctx)
	if err != nil {
		return route.File{}, err
	}
	o.act(ctx, "backup", "record and keys", "")
	return route.File{Content: archive}, nil
}
