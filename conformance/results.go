package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringfold/ringfold/conformance/suite"
	"golang.org/x/sys/unix"
)

// results is build/conformance.json.
type results struct {
	Kernel  string
	CPUs    string // that are online, as the kernel lists them
	Readers []*column
}

// column is one reader's results.
type column struct {
	Reader    string
	Version   string
	Scenarios []suite.Result
}

// load reads results from before. Those of another kernel are forgotten.
func load(path string) (*results, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	cpus, _ := os.ReadFile("/sys/devices/system/cpu/online")
	now := &results{Kernel: unix.ByteSliceToString(uts.Release[:]), CPUs: strings.TrimSpace(string(cpus))}
	before, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	if err == nil && before.Kernel == now.Kernel && before.CPUs == now.CPUs {
		return before, nil
	}
	return now, err
}

func read(path string) (*results, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &results{}
	return r, json.Unmarshal(b, r)
}

// add takes a reader's results in, in the place of earlier ones of the same scenarios.
func (r *results) add(reader suite.Reader, done []suite.Result) {
	var c *column
	for _, old := range r.Readers {
		if old.Reader == reader.Name {
			c = old
		}
	}
	if c == nil {
		c = &column{Reader: reader.Name}
		r.Readers = append(r.Readers, c)
	}
	c.Version = reader.Version
next:
	for _, result := range done {
		for i := range c.Scenarios {
			if c.Scenarios[i].Scenario == result.Scenario {
				c.Scenarios[i] = result
				continue next
			}
		}
		c.Scenarios = append(c.Scenarios, result)
	}
}

func (r *results) save(path string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
