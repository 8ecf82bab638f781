package agentapi

import (
	"slices"
	"sync"
	"time"
)

// keepPage is for how long those who wait for one DID share a page: wake-ups say when it
// is out of date, but one may be lost.
const keepPage = time.Second

// keepPages bounds how many pages are shared at a time by those who wait for one DID. They
// are woken at the same place, but for those who are behind.
const keepPages = 4

// keepBytes bounds what is kept of a page, for as long as somebody waits.
const keepBytes = 8 << 10

// pages are what was read for an audience since it was woken last, by place. All who are
// woken look there first, at the same moment: they do not wait for each other. The zero
// pages are none.
type pages struct {
	mu     sync.RWMutex
	kept   map[place]*page
	roused uint64 // when the audience was woken last, in looks
}

// forget drops all pages, and those too that are still being read.
func (p *pages) forget(roused uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept, p.roused = nil, roused
}

// find returns the page of a place, nil where there is none that is new.
func (p *pages) find(at place) *page {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if found := p.kept[at]; found != nil && time.Since(found.at) < keepPage {
		return found
	}
	return nil
}

// keep keeps a page, unless the audience was woken while it was read.
func (p *pages) keep(at place, read *page) {
	size := 0
	for _, text := range slices.Concat(read.entries, read.notices) {
		size += len(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.kept[at] != nil
	if size > keepBytes || read.began <= p.roused || !known && len(p.kept) >= keepPages {
		return
	}
	if p.kept == nil {
		p.kept = map[place]*page{}
	}
	p.kept[at] = read
}
