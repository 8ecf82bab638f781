package operatorapi

import (
	"bytes"
	"context"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/route"
)

func (o *Operator) getPassport(ctx context.Context, in contract.ByID) (route.File, error) {
	view, err := o.find(ctx, in.ID)
	if err != nil {
		return route.File{}, err
	}
	document, err := o.deps.Server.Passport(ctx, view, time.Now())
	return route.File{Content: bytes.NewReader(document.Content)}, err
}
