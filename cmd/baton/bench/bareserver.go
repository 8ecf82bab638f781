package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/baton-gateway/baton/federation/store/bare"
)

type bareServer struct {
	address string
	verify  func() error
	file    *bare.File
	server  *http.Server
	serving sync.WaitGroup
}

type bareStep struct {
	Document  string `json:"document"`
	Signature string `json:"signature"`
}

const bareAnswer = `{"id":"01K0000000000000000000000","event_id":"01K0000000000000000000000","verb":"offer","state":"offered","lost":[]}`

// openBare starts a bare server with a file in its own folder. The caller closes it.
func (r *run) openBare(ctx context.Context, folder string) (*bareServer, error) {
	dir, err := r.folder(folder)
	if err != nil {
		return nil, err
	}
	file, err := bare.Open(ctx, filepath.Join(dir, "bare.db"))
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &bareServer{address: listener.Addr().String(), verify: r.verify, file: file}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /api/v1/handoffs": s.fileOne, "POST /api/v1/batch": s.fileBatch, "GET /api/v1/rows": s.readPage,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	s.server = &http.Server{ReadHeaderTimeout: patience, Handler: mux}
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // its error is ErrServerClosed
	return s, nil
}

func (s *bareServer) fileOne(w http.ResponseWriter, r *http.Request) error {
	var step bareStep
	if err := json.NewDecoder(r.Body).Decode(&step); err != nil {
		return err
	}
	if err := s.put(step); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, bareAnswer) // the client is gone
	return nil
}

func (s *bareServer) fileBatch(w http.ResponseWriter, r *http.Request) error {
	var steps []bareStep
	if err := json.NewDecoder(r.Body).Decode(&steps); err != nil {
		return err
	}
	if err := s.putAll(steps); err != nil {
		return err
	}
	receipts := make([]bareStep, len(steps))
	for i, step := range steps {
		receipts[i] = bareStep{Document: bareAnswer, Signature: step.Signature}
	}
	return json.NewEncoder(w).Encode(receipts)
}

// bareLanes is the number of steps of a batch that are filed concurrently, as in a home.
const bareLanes = 64

func (s *bareServer) putAll(steps []bareStep) error {
	waiting := make(chan bareStep, len(steps))
	for _, step := range steps {
		waiting <- step
	}
	close(waiting)
	errs := make([]error, min(bareLanes, len(steps)))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for step := range waiting {
				errs[i] = errors.Join(errs[i], s.put(step))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *bareServer) put(step bareStep) error {
	if err := s.verify(); err != nil {
		return err
	}
	return s.file.Put(step.Document + step.Signature)
}

// The cursor is the number of rows read.
func (s *bareServer) readPage(w http.ResponseWriter, r *http.Request) error {
	after, _ := strconv.Atoi(r.FormValue("cursor")) // "" is the start
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil {
		return err
	}
	rows, err := s.file.Page(r.Context(), after, limit)
	if err != nil {
		return err
	}
	items := make([]bareStep, len(rows))
	for i, row := range rows {
		items[i].Document = row
	}
	return json.NewEncoder(w).Encode(map[string]any{"items": items, "next_cursor": strconv.Itoa(after + len(rows))})
}

// Close ends the server.
func (s *bareServer) Close() error {
	err := s.server.Close()
	s.serving.Wait()
	return errors.Join(err, s.file.Close())
}
