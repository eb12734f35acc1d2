package broker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is some servers that keep streams together.
type Cluster struct {
	Servers []*Server
	ports   []port // at which they find each other
}

// StartCluster starts n servers on loopback, at ports that are free, which keep their streams below dir. It returns when they have
// found each other and have chosen a leader, or when ctx is done.
func StartCluster(ctx context.Context, dir string, n int) (*Cluster, error) {
	// Each is told all others' addresses, as the first leader counts them. So ports are chosen beforehand.
	c := new(Cluster)
	var routes []*url.URL
	for range n {
		p, err := reserve()
		if err != nil {
			c.Stop()
			return nil, err
		}
		c.ports = append(c.ports, p)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", p.number)})
	}
	for i, p := range c.ports {
		name := fmt.Sprintf("fleet-%d", i+1)
		s, err := start(&server.Options{
			ServerName: name, Host: "127.0.0.1", NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, name),
			Cluster: server.ClusterOpts{Name: "fleet", Host: "127.0.0.1", Port: p.number},
			Routes:  routes,
		})
		if err != nil {
			c.Stop()
			return nil, err
		}
		c.Servers = append(c.Servers, s)
	}
	for !c.ready() {
		select {
		case <-ctx.Done():
			c.Stop()
			return nil, errors.Join(errors.New("starting a cluster of NATS servers: they have not agreed on a leader"), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return c, nil
}

// ready reports whether each knows all others, and all know a leader.
func (c *Cluster) ready() bool {
	led := false
	for _, s := range c.Servers {
		if !s.JetStreamIsCurrent() {
			return false
		}
		if s.JetStreamIsLeader() {
			led = len(s.JetStreamClusterPeers()) == len(c.Servers)
		}
	}
	return led
}

// URL is where clients find it: all servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Leader is the server that leads a stream, nil if none does now.
func (c *Cluster) Leader(stream string) *Server {
	for _, s := range c.Servers {
		if s.Running() && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return s
		}
	}
	return nil
}

// Stop returns when all servers have ended.
func (c *Cluster) Stop() {
	for _, s := range c.Servers {
		s.Shutdown()
	}
	for _, s := range c.Servers {
		s.Close()
	}
	for _, p := range c.ports {
		p.release()
	}
}
