// Package broker runs NATS servers with JetStream in this process: for the demo and for tests. In
// production, run nats-server.
package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// Server is a NATS server, which may be away in between.
type Server struct {
	*server.Server
	options *server.Options
	port    int // a socket that keeps it
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
	s := &Server{options: o}
	var err error
	if s.port, o.Port, err = reserve(); err == nil {
		err = s.Restart()
	}
	if err != nil {
		unix.Close(s.port)
		return nil, fmt.Errorf("starting a NATS server: %w", err)
	}
	s.url = s.ClientURL()
	return s, nil
}

// reserve keeps a port of loopback by a socket that is bound to it and does not listen. So
// connecting to it is refused while the server is away, nobody gets it as one that is free, and the
// server may bind it too, as all listeners of Go's have SO_REUSEADDR.
func reserve() (fd, port int, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fd, 0, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fd, 0, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fd, 0, err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return fd, 0, err
	}
	return fd, at.(*unix.SockaddrInet4).Port, nil
}

// Restart starts a server again that was stopped, at the same port and with what it has stored.
func (s *Server) Restart() error {
	again, err := server.NewServer(s.options.Clone())
	if err != nil {
		return err
	}
	go again.Start()
	if !again.ReadyForConnections(time.Minute) {
		again.Shutdown()
		return errors.New("it does not get ready")
	}
	s.Server = again
	return nil
}

// URL is where clients find it. It is always the same, and may be asked for from any goroutine.
func (s *Server) URL() string { return s.url }

// Port is the one it listens on.
func (s *Server) Port() int { return s.options.Port }

// Stop returns when the server has ended. What it has stored stays, and its port is kept for it.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Close is Stop for good.
func (s *Server) Close() {
	s.Stop()
	unix.Close(s.port)
}
