// Package broker runs NATS servers with JetStream in this process: for the demo and for tests. In earnest one runs nats-server.
package broker

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server.
type Server struct {
	*server.Server
	options *server.Options
}

// Start starts a server that listens on loopback and keeps its streams below dir. Port 0 is any that is free.
func Start(dir string, port int) (*Server, error) {
	return StartWith(dir, port, func(*server.Options) {})
}

// StartWith is Start with other options too, such as TLS and users: change makes them.
func StartWith(dir string, port int, change func(o *server.Options)) (*Server, error) {
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{ServerName: "fleet", Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
	change(o)
	return start(o)
}

func start(o *server.Options) (*Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("starting a NATS server: %w", err)
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		s.Shutdown()
		return nil, errors.New("starting a NATS server: it does not get ready")
	}
	return &Server{s, o}, nil
}

// URL is where clients find it.
func (s *Server) URL() string { return s.ClientURL() }

// Port is the one it listens on, to start another one in its place.
func (s *Server) Port() int {
	u, err := url.Parse(s.ClientURL())
	if err != nil {
		panic(err) // the server has made it
	}
	var port int
	fmt.Sscan(u.Port(), &port)
	return port
}

// Stop returns when the server has ended. What it has stored stays.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}
