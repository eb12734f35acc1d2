// Package broker runs NATS servers with JetStream in this process: for the demo and for tests. In production, run nats-server.
package broker

import (
	"errors"
	"fmt"
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

// Start starts a server that listens on loopback, at a port that is free, and keeps its streams below dir.
func Start(dir string) (*Server, error) {
	return StartWith(dir, func(*server.Options) {})
}

// StartWith is Start with other options too, such as TLS and users: change makes them.
func StartWith(dir string, change func(o *server.Options)) (*Server, error) {
	o := &server.Options{ServerName: "fleet", Host: "127.0.0.1", JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
	change(o)
	return start(o)
}

func start(o *server.Options) (*Server, error) {
	// Clients on this machine may be stopped for any time in the middle of a handshake.
	o.TLSTimeout, o.AuthTimeout = time.Hour.Seconds(), time.Hour.Seconds()
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
