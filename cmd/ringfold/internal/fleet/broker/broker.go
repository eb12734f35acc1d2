// Package broker runs NATS servers with JetStream in this process: for the demo and for tests. In
// production, run nats-server.
package broker

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server, which may be away in between.
type Server struct {
	*server.Server
	options *server.Options
	port    port
	url     string
}

// Start starts a server that listens on loopback, at a free port, and keeps its streams below dir.
// Functions may change its options.
func Start(dir string, change ...func(o *server.Options)) (*Server, error) {
	o := &server.Options{ServerName: "fleet", Host: "127.0.0.1", JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
	// Clients on this machine may be stopped for any time in the middle of a handshake.
	o.TLSTimeout, o.AuthTimeout = time.Hour.Seconds(), time.Hour.Seconds()
	for _, f := range change {
		f(o)
	}
	kept, err := reserve()
	if err != nil {
		return nil, fmt.Errorf("starting a NATS server: %w", err)
	}
	o.Port = kept.number
	s := &Server{options: o, port: kept}
	if err := s.Restart(); err != nil {
		kept.release()
		return nil, err
	}
	s.url = s.ClientURL()
	return s, nil
}

// StartCluster starts n servers, which keep their streams together, below dir. A stream can be made
// when they have found each other.
func StartCluster(dir string, n int) (all []*Server, err error) {
	// Each must know all others from the start, as the first leader counts them.
	var routes []*url.URL
	for range n {
		p, err := reserve()
		if err != nil {
			return nil, err
		}
		defer p.release() // the servers have it then
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", p.number)})
	}
	for i, at := range routes {
		port, _ := strconv.Atoi(at.Port())
		s, err := Start(filepath.Join(dir, strconv.Itoa(i)), func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprint("fleet-", i), routes
			o.Cluster = server.ClusterOpts{Name: "fleet", Host: "127.0.0.1", Port: port}
		})
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Restart starts a server again that was stopped, at the same port and with what it has stored.
func (s *Server) Restart() error {
	again, err := server.NewServer(s.options.Clone())
	if err != nil {
		return fmt.Errorf("starting a NATS server: %w", err)
	}
	go again.Start()
	if !again.ReadyForConnections(time.Minute) {
		again.Shutdown()
		return errors.New("starting a NATS server: it does not get ready")
	}
	s.Server = again
	return nil
}

// URL is where clients find it. It is always the same, and may be asked for from any goroutine.
func (s *Server) URL() string { return s.url }

// Port is the one it listens on.
func (s *Server) Port() int { return s.port.number }

// Stop returns when the server has ended. What it has stored stays, and its port is kept for it.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Close is Stop for good.
func (s *Server) Close() {
	s.Stop()
	s.port.release()
}
