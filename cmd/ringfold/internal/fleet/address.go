// Package fleet carries recordings of many hosts over NATS JetStream, each in the pipe format of
// perf.data, in messages.
//
// A Sink publishes what a perfdata.Recorder writes: sink.go makes messages (message.go) of it, which
// wait in a spool on disk (queue.go, spool/) until the stream has them (publish.go, stream.go). A
// Reader feeds each host's messages to a perfdata.Live: reader.go gets them, host.go and log.go find
// what is missing, merge.go says which hosts the others wait for, result.go what is known in the
// end. address.go and connect.go say where the stream is, retry.go tries again what may fail for a
// while.
package fleet

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
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
	parameters := a.parameters(write)
	for name, list := range values {
		p, value := parameters.Lookup(name), list[len(list)-1]
		if p == nil {
			var known []string
			parameters.VisitAll(func(p *pflag.Flag) { known = append(known, p.Name) })
			return a, fmt.Errorf("there is no parameter %q here, but %s", name, strings.Join(known, ", "))
		}
		if err := p.Value.Set(value); err != nil {
			return a, fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	if write {
		return a, a.Write.check()
	}
	return a, a.Read.check()
}

// parameters sets what an address to write to, or to read from, may say, with its defaults.
func (a *Address) parameters(write bool) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&a.Creds, "creds", "", "")
	f.StringVar(&a.NKey, "nkey", "", "")
	f.StringVar(&a.TLSCert, "tlscert", "", "")
	f.StringVar(&a.TLSKey, "tlskey", "", "")
	f.StringVar(&a.TLSCA, "tlsca", "", "")
	if write {
		a.Write.SpoolBytes, a.Write.MaxBytes = 256<<20, 1<<30
		f.StringVar(&a.Write.Host, "host", "", "")
		f.StringVar(&a.Write.Spool, "spool", DefaultSpool, "")
		f.Var(&a.Write.SpoolBytes, "spool-size", "")
		f.DurationVar(&a.Write.MaxAge, "max-age", 24*time.Hour, "")
		f.Var(&a.Write.MaxBytes, "max-bytes", "")
		f.IntVar(&a.Write.Replicas, "replicas", 1, "")
		return f
	}
	f.Func("hosts", "", func(s string) (err error) { a.Read.Only, err = names(s); return err })
	f.Func("wait", "", func(s string) (err error) { a.Read.Hosts, err = names(s); return err })
	f.Func("since", "", func(s string) (err error) { a.Read.Since, a.Read.All, err = parseSince(s, time.Now()); return err })
	f.BoolVar(&a.Read.Once, "once", false, "")
	f.DurationVar(&a.Read.Dead, "dead", DefaultDead, "")
	f.IntVar(&a.Read.Buffer, "buffer", DefaultBuffer, "")
	return f
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

func (o *SinkOptions) check() (err error) {
	if o.MaxAge < duplicates || o.MaxBytes == 0 || o.Replicas < 1 || o.SpoolBytes == 0 {
		return fmt.Errorf("max-age must be %v at least, max-bytes, spool-size and replicas positive", duplicates)
	}
	if o.Host == "" {
		if o.Host, err = os.Hostname(); err != nil {
			return fmt.Errorf("%w: name this host by host=NAME", err)
		}
	}
	return checkName("host", o.Host)
}

func (o *ReadOptions) check() error {
	switch {
	case o.Once && !o.All && o.Since.IsZero():
		return errors.New("once needs since: nothing that comes from now on has been stored already")
	case o.Dead <= 0 || o.Buffer <= 0:
		return errors.New("dead and buffer must be positive")
	}
	return nil
}
