// Package fleet carries recordings of many hosts over NATS JetStream, each in the pipe format of
// perf.data, in messages.
//
// A Sink publishes what a perfdata.Recorder writes: sink.go makes messages (message.go) of it, which
// wait in a spool on disk (queue.go, spool/) until the stream has them (publish.go, stream.go). A
// Reader feeds each host's messages to a perfdata.Live: reader.go gets them, host.go and log.go find
// what is missing, merge.go says which hosts the others wait for, result.go what is known in the
// end. address.go and connect.go say where the stream is.
package fleet

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// Is reports whether a word of a command line is an address of a stream.
func Is(word string) bool {
	return strings.HasPrefix(word, "nats://") || strings.HasPrefix(word, "tls://")
}

// Usage says what an address is, for commands.
const Usage = "nats://SERVER[:PORT][,SERVER...]/STREAM[?PARAMETER=VALUE&...]"

// Address is a JetStream stream, and how to use it: see Usage.
type Address struct {
	Connection
	Stream string
	Write  SinkOptions
	Read   ReadOptions
}

// parameters of addresses: for both, to write, to read.
var (
	common  = []string{"creds", "nkey", "tlscert", "tlskey", "tlsca"}
	writing = []string{"host", "spool", "spool-size", "max-age", "max-bytes", "replicas"}
	reading = []string{"hosts", "wait", "since", "once", "dead", "buffer"}
)

// DefaultSpool is where a Sink's spool is.
const DefaultSpool = "/var/lib/ringfold/ringfold-spool.db"

// Parse reads an address to write to, or to read from. It does not connect.
func Parse(address string, write bool) (a Address, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	place, query, _ := strings.Cut(rest, "?")
	servers, stream, _ := strings.Cut(place, "/")
	if strings.Contains(servers, "@") {
		return a, errors.New("an address must not have a user or a password in it, for all to see: give creds=FILE or nkey=FILE, or the servers as $NATS_URL and the address as nats:///STREAM")
	}
	if stream == "" || strings.ContainsAny(stream, "/.*> \t") {
		return a, fmt.Errorf("%q is no name of a stream: an address is %s", stream, Usage)
	}
	a.Stream = stream
	for one := range strings.SplitSeq(servers, ",") {
		if one != "" {
			a.URL = append(a.URL, scheme+"://"+one)
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return a, fmt.Errorf("the parameters %q: %w", query, err)
	}
	a.Write.defaults()
	a.Read.defaults()
	allowed := append(slices.Clone(common), reading...)
	if write {
		allowed = append(slices.Clone(common), writing...)
	}
	for name, list := range values {
		if !slices.Contains(allowed, name) {
			return a, fmt.Errorf("there is no parameter %q here, but %s", name, strings.Join(allowed, ", "))
		}
		if err := a.set(name, list[len(list)-1]); err != nil {
			return a, fmt.Errorf("%s=%s: %w", name, list[len(list)-1], err)
		}
	}
	if err == nil && write {
		err = a.Write.check()
	} else if err == nil {
		err = a.Read.check()
	}
	return a, err
}

func (a *Address) set(name, value string) (err error) {
	switch name {
	case "creds":
		a.Creds = value
	case "nkey":
		a.NKey = value
	case "tlscert":
		a.TLSCert = value
	case "tlskey":
		a.TLSKey = value
	case "tlsca":
		a.TLSCA = value
	case "host":
		a.Write.Host = value
	case "spool":
		a.Write.Spool = value
	case "spool-size":
		err = setSize(&a.Write.SpoolBytes, value)
	case "max-age":
		a.Write.MaxAge, err = time.ParseDuration(value)
	case "max-bytes":
		err = setSize(&a.Write.MaxBytes, value)
	case "replicas":
		a.Write.Replicas, err = strconv.Atoi(value)
	case "hosts":
		a.Read.Only, err = names(value)
	case "wait":
		a.Read.Hosts, err = names(value)
	case "since":
		a.Read.Since, a.Read.All, err = parseSince(value, time.Now())
	case "once":
		a.Read.Once, err = strconv.ParseBool(value)
	case "dead":
		a.Read.Dead, err = time.ParseDuration(value)
	case "buffer":
		a.Read.Buffer, err = strconv.Atoi(value)
	}
	return err
}

func setSize(to *int64, value string) error {
	var size cli.Size
	err := size.Set(value)
	*to = int64(size)
	return err
}

func names(list string) (all []string, err error) {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "" {
			return nil, errors.New("names of hosts, separated by commas")
		}
		all = append(all, one)
	}
	return all, nil
}

func parseSince(s string, now time.Time) (at time.Time, all bool, err error) {
	if s == "all" {
		return at, true, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), false, nil
	}
	if at, err = time.Parse(time.RFC3339, s); err != nil {
		err = errors.New("a time ago, such as 10m, a time, such as 2026-01-02T15:04:05Z, or all")
	}
	return at, false, err
}

func (o *SinkOptions) defaults() {
	o.Spool, o.SpoolBytes = DefaultSpool, 256<<20
	o.MaxAge, o.MaxBytes, o.Replicas = 24*time.Hour, 1<<30, 1
}

func (o *SinkOptions) check() (err error) {
	if o.MaxAge < duplicates || o.MaxBytes <= 0 || o.Replicas < 1 || o.SpoolBytes <= 0 {
		return fmt.Errorf("max-age must be %v at least, max-bytes, spool-size and replicas positive", duplicates)
	}
	if o.Host == "" {
		if o.Host, err = os.Hostname(); err != nil {
			return fmt.Errorf("%w: name this host by host=NAME", err)
		}
	}
	return checkName("host", o.Host)
}

func (o *ReadOptions) defaults() { o.Dead, o.Buffer = DefaultDead, DefaultBuffer }

func (o *ReadOptions) check() error {
	switch {
	case o.Once && !o.All && o.Since.IsZero():
		return errors.New("once needs since: nothing that comes from now on has been stored already")
	case o.Dead <= 0 || o.Buffer <= 0:
		return errors.New("dead and buffer must be positive")
	}
	return nil
}
