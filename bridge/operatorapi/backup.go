package operatorapi

import (
	"context"

	"baton/bridge/operatorapi/contract"
)

// Backup implements [contract.StrictServerInterface]: a tar file of the record and the keys. Its
// holder can sign as the gateway, so that the audit log has each copy. A client that receives
// less than all finds the archive cut short.
func (o *Operator) Backup(ctx context.Context, _ contract.BackupRequestObject) (contract.BackupResponseObject, error) {
	archive, err := o.deps.Vault.Backup(ctx)
	if err != nil {
		return nil, err
	}
	o.act(ctx, "backup", "record and keys", "")
	return contract.Backup200ApplicationXTarResponse{Body: archive}, nil
}
