package client_test

import "testing"

func TestReadMarkersBelongToTheAccount(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	request := func(who string) string {
		return `
		` + who + ` > CAP REQ :draft/read-marker standard-replies
		` + who + ` < *ACK*`
	}
	peers := play(t, h, login+request("ada")+`
		ada > JOIN #ops
		ada < *JOIN*
		ada < :gw.example MARKREAD #ops *
		ada < *353*
		ada < *366*`+loginAs("ada2", ada)+request("ada2")+`
		ada > MARKREAD #OPS timestamp=2026-11-01T10:00:00.000Z
		ada < :gw.example MARKREAD #OPS timestamp=2026-11-01T10:00:00.000Z
		ada2 < :gw.example MARKREAD #OPS timestamp=2026-11-01T10:00:00.000Z
		ada2 > MARKREAD #ops timestamp=2026-10-01T10:00:00.000Z
		ada < :gw.example MARKREAD #ops timestamp=2026-11-01T10:00:00.000Z
		ada2 < :gw.example MARKREAD #ops timestamp=2026-11-01T10:00:00.000Z
		ada2 > MARKREAD `+string(bob)+`
		ada2 < :gw.example MARKREAD `+string(bob)+` *
		ada2 > MARKREAD
		ada2 < :gw.example FAIL MARKREAD NEED_MORE_PARAMS :*
		ada2 > MARKREAD #ops *
		ada2 < :gw.example FAIL MARKREAD INVALID_PARAMS #ops :*
		guest joins draft/read-marker
		guest > MARKREAD ada timestamp=2026-11-02T10:00:00.000Z
		guest < :gw.example MARKREAD ada timestamp=2026-11-02T10:00:00.000Z
		plain joins
		plain > MARKREAD #ops
		plain < :gw.example 421 plain MARKREAD :Unknown command`)
	peers["ada"].say(t, "QUIT")
	peers["ada2"].say(t, "QUIT")
	peers["ada"].until(t, "ERROR *")
	peers["ada2"].until(t, "ERROR *")
	play(t, h, loginAs("ada3", ada)+request("ada3")+`
		ada3 > JOIN #ops
		ada3 < *JOIN*
		ada3 < :gw.example MARKREAD #ops timestamp=2026-11-01T10:00:00.000Z
		ada3 < *353*
		ada3 < *366*`)
}
