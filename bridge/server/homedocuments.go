package server

import (
	"context"

	"baton/federation"
	"baton/federation/peering"
	"baton/federation/relay"
)

// linkedHome returns another home as its documents are read.
func (h *homes) linkedHome(home federation.HomeID) (peering.Linked, bool) {
	peer := h.peer(home)
	if peer == nil {
		return peering.Linked{}, false
	}
	linked := peering.Linked{Home: home, URL: peer.URL(), Key: peer.Key(), Get: peer.Fetch, Vouches: peer.HubVouches}
	if peer.ByHub() {
		linked.Lookup = func(ctx context.Context, path federation.URLPath) (peering.Answer, error) {
			return lookUp(ctx, peer, path)
		}
	}
	return linked, true
}

// lookUp reads a document of another home through the hub.
func lookUp(ctx context.Context, peer *relay.Peer, path federation.URLPath) (peering.Answer, error) {
	document, err := peer.Lookup(ctx, path)
	return peering.Answer{Document: document.Body, Signed: document.Answer.Body, Signature: document.Answer.Signature}, err
}

// homeDocument reads a document of another home that this one knows, for the directory.
func (s *Server) homeDocument(ctx context.Context, name string, path federation.URLPath) (body []byte, known bool, err error) {
	if s.homes == nil {
		return nil, false, nil
	}
	return s.homes.documents.Read(ctx, name, path)
}
